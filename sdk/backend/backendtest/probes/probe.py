# The program of the conformance kit: its arguments are operations, each with a
# fixed number of arguments of its own, carried out in order.
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
    elif op == "sleep":
        time.sleep(int(take()) / 1000)
    else:
        sys.exit("unknown operation " + op)
