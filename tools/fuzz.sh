#!/bin/sh
# Runs every fuzz target of the module for a time (10s), or those whose directory and name
# ("./plugins/exec FuzzPaths") match a second argument: on each processor one at a time. An
# input that fails a target is left in the testdata of its package.
set -eu
cd "$(dirname "$0")/.."

targets=$(grep -rHoE '^func Fuzz[A-Za-z0-9_]*' --include='*_test.go' --exclude-dir=node_modules . |
	sed -E 's|^(.*)/[^/]*:func (.*)$|\1 \2|' | grep -E "${2:-.}" | sort)
[ -n "$targets" ] || { echo "no fuzz targets found" >&2; exit 1; }

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
inputs=$("${GO:-go}" env GOCACHE)/fuzz/$("${GO:-go}" list -m)
echo "$targets" | cut -d ' ' -f 1 | uniq | while read -r dir; do
	"${GO:-go}" test -c -fuzz . -o "$work/$dir/test" "$dir"
done

# What a target says is kept together, and printed once it has ended.
echo "$targets" | xargs -P "$(getconf _NPROCESSORS_ONLN)" -L 1 sh -c '
	cd "$4"
	out=$(GOMAXPROCS=1 "$2/$4/test" -test.run "^$" -test.fuzz "^$5\$" -test.fuzztime "$1" \
		-test.fuzzcachedir "$3/${4#./}" -test.parallel 1 -test.timeout 0 2>&1) || failed=1
	printf "fuzz: %s %s\n%s\n" "$4" "$5" "$out"
	exit ${failed:-0}
' sh "${1:-10s}" "$work" "$inputs"
