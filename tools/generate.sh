#!/bin/sh
# Writes the generated Go code of sdk/backend/backend.proto, of the sandbox daemon's
# protocol and of the OpenAPI document, and the examples of the latter in other
# languages. The generators are pinned by tools/go.mod and tools/package-lock.json.
#
#	tools/generate.sh          writes
#	tools/generate.sh --check  fails when what is checked in differs
set -eu
cd "$(dirname "$0")/.."

out=.
case "${1-}" in
'') ;;
--check)
	out=$(mktemp -d)
	trap 'rm -rf "$out"' EXIT
	;;
*)
	echo "usage: tools/generate.sh [--check]" >&2
	exit 2
	;;
esac

# Written last, so that an interrupted installation is repeated.
if ! cmp -s tools/package-lock.json tools/node_modules/.installed; then
	(cd tools && npm ci --ignore-scripts --no-audit --no-fund --silent)
	cp tools/package-lock.json tools/node_modules/.installed
fi

buf=tools/node_modules/.bin/buf
"$buf" format --config tools/buf.yaml --diff --exit-code .
"$buf" lint --config tools/buf.yaml .
generate() { # generate TEMPLATE MODULE
	"$buf" generate --config tools/buf.yaml --template "tools/$1" --output "$out" "$2"
}
generate buf.gen.yaml sdk/backend
generate buf.gen.connect.yaml plugins/internal/envd/proto
# The connect generator formats as gofmt does, not as the rest of the tree is. Files
# are named one by one: in directories gofumpt leaves generated ones alone.
find "$out/plugins/internal/envd/envdpb" -name '*.go' -exec go tool -modfile=tools/go.mod gofumpt -w {} +

mkdir -p "$out/sdk/client/wire"
go tool -modfile=tools/go.mod oapi-codegen -config tools/oapi-codegen.yaml \
	-o "$out/sdk/client/wire/wire.gen.go" plugins/exec/openapi/openapi.yaml
go tool -modfile=tools/go.mod gofumpt -w "$out/sdk/client/wire/wire.gen.go"
go -C tools run ./clients ../plugins/exec/openapi/openapi.yaml "$(cd "$out" && pwd)"

if [ "$out" != . ]; then
	for dir in sdk/backend/backendpb plugins/internal/envd/envdpb sdk/client/wire docs/examples/clients docs/clients.md; do
		diff -r "$out/$dir" "$dir" || {
			echo "generated code is out of date: run tools/generate.sh" >&2
			exit 1
		}
	done
fi

tools/assemblyscript.sh "$@"
