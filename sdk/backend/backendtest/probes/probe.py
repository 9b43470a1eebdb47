# The program of the conformance kit: its arguments are operations, each with a
# fixed number of arguments of its own, carried out in order.
import errno
import json
import os
import sys
import time

args = sys.argv[1:]


def take():
    return args.pop(0)


def parents(path):
    d = os.path.dirname(path)
    if d:
        os.makedirs(d, exist_ok=True)


def write(path, text, mode="w"):
    parents(path)
    with open(path, mode, encoding="utf-8", newline="") as f:
        f.write(text)


def emit(stream, data):
    stream.buffer.write(data)
    stream.buffer.flush()


def much(stream, n):
    block = b"x" * 65536
    while n > 0:
        emit(stream, block[:n])
        n -= len(block)


def dial(path):
    """Open the control channel: a file, or else a socket."""
    try:
        return open(path, "r+b", buffering=0)
    except OSError as e:
        if e.errno != errno.ENXIO:
            raise
    import socket

    s = socket.socket(socket.AF_UNIX)
    s.connect(path)
    return s.makefile("rwb", buffering=0)


class Channel:
    def __init__(self, path=None):
        self.file = dial(path or os.environ["CAISSON_CONTROL"])
        self.rest = b""

    def write(self, data):
        while data:
            data = data[self.file.write(data):]

    def send(self, id, name, value):
        self.write(json.dumps({"id": id, "name": name, "input": value}).encode() + b"\n")

    def line(self):
        parts = [self.rest]
        while b"\n" not in parts[-1]:
            data = self.file.read(1 << 20)
            if not data:
                return None
            parts.append(data)
        text, _, self.rest = b"".join(parts).partition(b"\n")
        return text

    def answer(self):
        line = self.line()
        if line is None:
            sys.exit("the channel ended")
        return json.loads(line)


def said(reply):
    if "error" in reply:
        return "error: " + reply["error"] + "\n"
    return json.dumps(reply["result"], separators=(",", ":"), ensure_ascii=False) + "\n"


def gather(n, name):
    c = Channel()
    for i in range(n):
        c.send(str(i), name, {"n": i})
    replies = {}
    while len(replies) < n:
        r = c.answer()
        replies[r["id"]] = r
    for i in range(n):
        emit(sys.stdout, said(replies[str(i)]).encode())


def pair(name):
    both = [Channel(), Channel()]
    for c, who in zip(both, "ab"):
        c.send("1", name, {"who": who})
    for c in both:
        emit(sys.stdout, said(c.answer()).encode())


kept = []

while args:
    op = take()
    if op == "out":
        emit(sys.stdout, take().encode())
    elif op == "err":
        emit(sys.stderr, take().encode())
    elif op == "outn":
        much(sys.stdout, int(take()))
    elif op == "errn":
        much(sys.stderr, int(take()))
    elif op == "exit":
        sys.exit(int(take()))
    elif op == "write":
        write(take(), take())
    elif op == "append":
        write(take(), take(), "a")
    elif op == "writen":
        write(take(), "x" * int(take()))
    elif op == "show":
        with open(take(), "rb") as f:
            emit(sys.stdout, f.read())
    elif op == "exists":
        emit(sys.stdout, b"yes" if os.path.exists(take()) else b"no")
    elif op == "rm":
        os.remove(take())
    elif op == "mkdir":
        os.makedirs(take(), exist_ok=True)
    elif op == "mv":
        os.rename(take(), take())
    elif op == "touch":
        t = int(take())
        os.utime(take(), (t, t))
    elif op == "link":
        os.symlink(take(), take())
    elif op == "args":
        for a in args:
            emit(sys.stdout, (os.fsencode(a).hex() + "\n").encode())
        args = []
    elif op == "env":
        emit(sys.stdout, os.environ.get(take(), "(unset)").encode())
    elif op == "cwd":
        emit(sys.stdout, os.getcwd().encode())
    elif op == "cat":
        while data := sys.stdin.buffer.read1(65536):
            emit(sys.stdout, data)
    elif op == "spin":
        while True:
            pass
    elif op == "call":
        c = Channel()
        c.send("1", take(), json.loads(take()))
        emit(sys.stdout, said(c.answer()).encode())
    elif op == "size":
        c = Channel()
        c.send("1", take(), {})
        emit(sys.stdout, str(len(said(c.answer())) - 1).encode())
    elif op == "give":
        c = Channel()
        c.send("1", take(), "x" * (int(take()) - 2))
        emit(sys.stdout, said(c.answer()).encode())
    elif op == "gather":
        gather(int(take()), take())
    elif op == "pair":
        pair(take())
    elif op == "open":
        kept.append(Channel())
        kept[-1].send("1", take(), {})
    elif op == "close":
        kept.pop().file.close()
    elif op == "raw":
        c = Channel()
        try:
            c.write(take().encode() + b"\n")
        except OSError:
            pass
        emit(sys.stdout, b"eof" if c.line() is None else b"answered")
    elif op == "dial":
        try:
            Channel(take()).send("1", "intruder", {})
            emit(sys.stdout, b"connected")
        except OSError:
            emit(sys.stdout, b"refused")
    elif op == "sleep":
        time.sleep(int(take()) / 1000)
    else:
        sys.exit("unknown operation " + op)
