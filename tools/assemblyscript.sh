#!/bin/sh
# Builds the guests of tests that are written in AssemblyScript. They are committed,
# because tests run where npm is not.
#
#	tools/assemblyscript.sh          writes
#	tools/assemblyscript.sh --check  fails when what is checked in differs
set -eu
cd "$(dirname "$0")/.."

sdk=sdk/assemblyscript
if ! cmp -s $sdk/package-lock.json $sdk/node_modules/.installed; then
	(cd $sdk && npm ci --ignore-scripts --no-audit --no-fund --silent)
	cp $sdk/package-lock.json $sdk/node_modules/.installed
fi
built=$(mktemp -d)
trap 'rm -rf "$built"' EXIT

guest() { # guest SOURCE FLAGS...
	source=$1
	target=${source%.ts}.wasm
	shift
	$sdk/node_modules/.bin/asc "$source" -o "$built/guest.wasm" --use abort= "$@"
	if [ "$mode" = --check ]; then
		cmp -s "$built/guest.wasm" "$target" || { echo "$target is out of date: run tools/assemblyscript.sh" >&2; exit 1; }
	else
		cp "$built/guest.wasm" "$target"
	fi
}
mode=${1-}
# Without the SDK: the floor of what a call costs.
guest runtimes/wasm/testdata/assemblyscript/policy.ts -Osize --noAssert --runtime stub
guest sdk/assemblyscript/testdata/policy.ts -O3 --runtime incremental --exportStart _initialize
