#!/bin/sh
# Serves what `make build` built, for development: on the loopback address, with
# a key of its own and without a fee.
set -eu
cd "$(dirname "$0")/.."

if [ -z "${CODE_EXEC_API_KEY-}" ]; then
	# Random rather than well known: any page in a browser can reach this address.
	if [ ! -s bin/dev-key ]; then
		(umask 077 && head -c 24 /dev/urandom | base64 | tr '+/' '-_' >bin/dev-key)
	fi
	CODE_EXEC_API_KEY=$(cat bin/dev-key)
fi
export CODE_EXEC_API_KEY
export CODE_EXEC_FEE_CENTS="${CODE_EXEC_FEE_CENTS-0}"

exec bin/caisson serve --addr "${ADDR:-127.0.0.1:8080}" --data "${DATA:-data}"
