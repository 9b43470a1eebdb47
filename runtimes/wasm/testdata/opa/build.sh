#!/bin/sh
# Builds policy.tar.gz anew from policy.rego and data.json. The result is committed,
# so that tests need no opa; those of bench/compare build it again and compare.
set -eu
cd "$(dirname "$0")"
go -C ../../bench/compare tool opa build -t wasm -e caisson/verdict -e caisson/remarks -r sample-1 \
	-o "$PWD/policy.tar.gz" "$PWD/policy.rego" "$PWD/data.json"
ls -l policy.tar.gz
