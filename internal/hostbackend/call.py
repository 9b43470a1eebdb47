#!/usr/bin/env -S python3 -IS
"""call NAME [JSON]: one programmatic call over the socket of CAISSON_CONTROL."""
import json
import os
import socket
import sys


def fail(text):
    sys.stderr.write(text + "\n")
    sys.exit(1)


if not 2 <= len(sys.argv) <= 3:
    fail("usage: $CAISSON_CALL NAME [JSON]")
try:
    value = json.loads(sys.argv[2] if len(sys.argv) == 3 else "{}")
except ValueError as e:
    fail("the input is not valid JSON: %s" % e)
with socket.socket(socket.AF_UNIX) as s:
    s.connect(os.environ["CAISSON_CONTROL"])
    frame = {"id": "1", "name": sys.argv[1], "input": value}
    s.sendall(json.dumps(frame).encode() + b"\n")
    line = s.makefile("rb").readline()
if not line:
    fail("the connection ended before the answer")
reply = json.loads(line)
if "error" in reply:
    fail(reply["error"])
sys.stdout.write(json.dumps(reply["result"], separators=(",", ":"), ensure_ascii=False) + "\n")
