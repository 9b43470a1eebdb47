#!/bin/sh
# Runs every test named TestSoak... for a time (10m each), one after the other, and
# then every fuzz target for the same time. The tests read the time from
# CAISSON_SOAK and skip without it.
set -eu
cd "$(dirname "$0")/.."

CAISSON_SOAK=${1:-10m}
export CAISSON_SOAK
tests=$(grep -rHoE '^func TestSoak[A-Za-z0-9_]*' --include='*_test.go' --exclude-dir=node_modules . |
	sed -E 's|^(.*)/[^/]*:func (.*)$|\1 \2|' | sort)
[ -n "$tests" ] || { echo "no soak tests found" >&2; exit 1; }
# Every one runs, whatever became of the others.
failed=$(echo "$tests" | {
	while read -r dir name; do
		echo "soak: $dir $name" >&2
		"${GO:-go}" test -count 1 -timeout 0 -v -run "^$name\$" "$dir" >&2 || echo "$dir $name"
	done
})
tools/fuzz.sh "$CAISSON_SOAK"
[ -z "$failed" ] || { printf 'soak: failed:\n%s\n' "$failed" >&2; exit 1; }
