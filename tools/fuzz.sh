#!/bin/sh
# Runs every fuzz target of the module for a time (10s), one after the other, or those
# whose directory and name ("./plugins/exec FuzzPaths") match a second argument.
set -eu
cd "$(dirname "$0")/.."

targets=$(grep -rHoE '^func Fuzz[A-Za-z0-9_]*' --include='*_test.go' --exclude-dir=node_modules . |
	sed -E 's|^(.*)/[^/]*:func (.*)$|\1 \2|' | grep -E "${2:-.}" | sort)
[ -n "$targets" ] || { echo "no fuzz targets found" >&2; exit 1; }
echo "$targets" | while read -r dir target; do
	echo "fuzz: $dir $target"
	"${GO:-go}" test -timeout 0 -run '^$' -fuzz "^$target\$" -fuzztime "${1:-10s}" "$dir"
done
