#!/bin/sh
# What `make lint` checks, cheapest first. Every check runs; the script fails if
# one of them did.
set -u
cd "$(dirname "$0")/.."

failed=0
check() { # check NAME OUTPUT: fails when there is output
	if [ -n "$2" ]; then
		printf '%s:\n%s\n\n' "$1" "$2" >&2
		failed=1
	fi
}
step() { # step COMMAND...: fails when the command does
	echo "lint: $*"
	"$@" || failed=1
}
tool() { go tool -modfile=tools/go.mod "$@"; }
# What is or would be checked in, deleted files aside.
files() {
	git ls-files --cached --others --exclude-standard -- "$@" | sort -u | while IFS= read -r f; do
		[ -f "$f" ] && printf '%s\n' "$f"
	done
}

sources=$(files '*.go' ':!:*.pb.go' ':!:*.gen.go' ':!:*/testdata/*')

echo "lint: lock files"
check 'lock files with download addresses; npm install --omit-lockfile-registry-resolved' \
	"$(files '*package-lock.json' | xargs -r grep -l '"resolved": *"http')"
check 'lock files with packages that have no integrity hash' \
	"$(files '*package-lock.json' | while IFS= read -r f; do node tools/lockfile.mjs "$f"; done)"

echo "lint: size"
check 'Go files far over 400 lines: split them by subject' \
	"$(printf '%s\n' "$sources" | grep -v '_test\.go$' | xargs wc -l | awk '$1 > 420 && $2 != "total"')"

echo "lint: gofumpt"
check 'not formatted; go tool -modfile=tools/go.mod gofumpt -w FILE' \
	"$(printf '%s\n' "$sources" | xargs go tool -modfile=tools/go.mod gofumpt -l)"

step go vet ./...
step tool staticcheck ./...
step go test ./internal/floors
step go -C tools vet ./...
step go -C tools test ./...
step tools/generate.sh --check

exit $failed
