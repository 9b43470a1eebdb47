import ast
import asyncio
import inspect
import json
import keyword
import linecache
import os
import sys
import traceback
import types

# Stands in front of a program that calls tools. The program's own text is "code"; what it
# may call comes as JSON in "job", and what is said of each in "about"; python.go writes them.
job = json.loads(job)
names = sys.modules["__main__"].__dict__


class ToolExecutionError(RuntimeError):
    """A tool answered with an error."""


ToolExecutionError.__module__ = "__main__"
most_open, most_bytes = job["open"], job["bytes"]
together = 1 << 16  # bytes of frames that wait for others


def encode(frame):
    try:
        line = json.dumps(frame, ensure_ascii=False, allow_nan=False).encode()
    except UnicodeEncodeError:  # half a surrogate pair
        line = json.dumps(frame, allow_nan=False).encode()
    if len(line) > most_bytes:
        raise ToolExecutionError(f"the input of a tool has more than {most_bytes} bytes")
    return line + b"\n"


class Connection:
    """A connection of one event loop to whoever answers the calls."""

    def __init__(self, loop):
        self.loop = loop
        self.path = os.environ["CAISSON_CONTROL"]
        self.waiting = {}
        self.outgoing = {}  # frames by id, oldest first
        self.collected = 0
        self.last = 0
        self.buffer = bytearray()
        self.seen = 0
        self.socket = None
        self.room = asyncio.Semaphore(most_open)
        try:
            self.fd = os.open(self.path, os.O_RDWR)
        except OSError:
            import socket

            self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            self.socket.connect(self.path)
            self.fd = self.socket.fileno()
        loop.add_reader(self.fd, self.readable)

    def send(self, ident, frame):
        """Sends the frames of calls that are made together at once, as far as they
        are small."""
        if not self.outgoing:
            self.loop.call_soon(self.flush)
        self.outgoing[ident] = frame
        self.collected += len(frame)
        if self.collected >= together:
            self.flush()

    def flush(self):
        if not self.outgoing:
            return
        frames, self.outgoing, self.collected = self.outgoing, {}, 0
        # A call that was canceled meanwhile has its answer.
        frames = {i: f for i, f in frames.items() if i in self.waiting and not self.waiting[i].done()}
        try:
            data = b"".join(frames.values())
            if self.socket is not None:
                self.socket.sendall(data)
                return
            data = memoryview(data)
            while data:
                data = data[os.write(self.fd, data):]
        except (OSError, MemoryError) as error:
            for ident in frames:
                answer = self.waiting.get(ident)
                if answer is not None and not answer.done():
                    answer.set_exception(error)

    async def call(self, name, data):
        async with self.room:
            self.last += 1
            ident = str(self.last)
            frame = encode({"id": ident, "name": name, "input": data})
            answer = self.loop.create_future()
            self.waiting[ident] = answer
            try:
                self.send(ident, frame)
                return await answer
            finally:
                self.waiting.pop(ident, None)
                # Nobody is asked any more for what was not sent.
                self.collected -= len(self.outgoing.pop(ident, b""))

    def readable(self):
        try:
            self.receive()
        except MemoryError as error:  # it would be called again, and fail again
            self.buffer, self.seen = bytearray(), 0
            self.close(error)

    def receive(self):
        try:
            data = self.socket.recv(1 << 18) if self.socket is not None else os.read(self.fd, 1 << 18)
        except OSError:
            data = b""
        if not data:
            self.close()
            return
        self.buffer += data
        while True:
            end = self.buffer.find(b"\n", self.seen)
            if end < 0:
                self.seen = len(self.buffer)
                return
            line = bytes(memoryview(self.buffer)[:end])
            del self.buffer[: end + 1]
            self.seen = 0
            self.answer(line)

    def answer(self, line):
        # The id comes first, and is one of ours: it says whose a result is that cannot be read.
        ident = line[:80].split(b'"', 4)[3].decode()
        answer = self.waiting.pop(ident, None)
        if answer is None or answer.done():
            return
        try:
            frame = json.loads(line.decode())
        except MemoryError as error:
            answer.set_exception(error)
        except (ValueError, RecursionError) as error:
            answer.set_exception(ToolExecutionError(f"the tool's result cannot be read: {error}"))
        else:
            if "error" in frame:
                answer.set_exception(ToolExecutionError(frame["error"]))
            else:
                answer.set_result(frame.get("result"))

    def close(self, error=None):
        connections.pop(self.loop, None)
        self.outgoing.clear()
        if not self.loop.is_closed():
            self.loop.remove_reader(self.fd)
        if self.socket is not None:
            self.socket.close()
        else:
            os.close(self.fd)
        for answer in self.waiting.values():
            if not answer.done():
                answer.set_exception(error or ToolExecutionError("nobody answers any more"))

connections = {}

async def call(name, data):
    loop = asyncio.get_running_loop()
    connection = connections.get(loop)
    if connection is None:
        for other in [c for c in connections.values() if c.loop.is_closed()]:
            other.close()
        connection = connections[loop] = Connection(loop)
    return await connection.call(name, data)

def function(tool, description):
    name, known = tool["identifier"], tool["parameters"] or []
    positions = [p["name"] for p in known]
    members = set(positions)

    def arguments(args, kwargs):
        if len(args) == 1 and not kwargs and isinstance(args[0], dict):
            # Taken for the whole input, unless it can only be the first parameter.
            if not known or not known[0]["object"] or members.issuperset(args[0]):
                return dict(args[0])
        if len(args) > len(positions):
            raise TypeError(f"{name}() takes at most {len(positions)} positional arguments, {len(args)} were given")
        data = dict(zip(positions, args))
        for key, value in kwargs.items():
            if key in data:
                raise TypeError(f"{name}() got multiple values for argument {key!r}")
            data[key] = value
        missing = [p["name"] for p in known if p["required"] and p["name"] not in data]
        if missing:
            raise TypeError(f"{name}() misses the required argument {missing[0]!r}")
        optional = {p["name"] for p in known if not p["required"]}
        return {k: v for k, v in data.items() if v is not None or k not in optional}

    async def tool_function(*args, **kwargs):
        return await call(tool["name"], arguments(args, kwargs))

    tool_function.__name__ = tool_function.__qualname__ = name
    tool_function.__module__ = "__main__"
    tool_function.__doc__ = description or None
    kinds = inspect.Parameter
    shown = [
        kinds(p["name"], kinds.POSITIONAL_OR_KEYWORD, default=kinds.empty if p["required"] else None)
        for p in known
        if p["name"].isidentifier() and p["name"] not in keywords
    ]
    rest = "kwargs"
    while rest in members:
        rest = "_" + rest
    tool_function.__signature__ = inspect.Signature([*shown, kinds(rest, kinds.VAR_KEYWORD)])
    return tool_function

keywords = set(keyword.kwlist)
names["asyncio"], names["json"] = asyncio, json
names["ToolExecutionError"] = ToolExecutionError
for tool, description in zip(job["tools"], about):
    names[tool["identifier"]] = function(tool, description)

plain_run = asyncio.run

def run(main, **options):
    """asyncio.run, which here also works inside of a running loop: the program's
    own, which stands still meanwhile."""
    loop = asyncio._get_running_loop()
    if loop is None:
        return plain_run(main, **options)
    if loop in connections:
        connections[loop].flush()
    task = asyncio.current_task(loop)
    if task is not None:
        asyncio.tasks._leave_task(loop, task)
    asyncio._set_running_loop(None)
    try:
        return plain_run(main, **options)
    finally:
        asyncio._set_running_loop(loop)
        asyncio.set_event_loop(loop)
        if task is not None:
            asyncio.tasks._enter_task(loop, task)

path = names.get("__file__") or "main.py"
lines = code.splitlines(True)
if lines and not lines[-1].endswith("\n"):
    lines[-1] += "\n"
# Without a time, so that nobody looks at the file, which holds more than the code.
linecache.cache[path] = (len(code), None, lines, path)


def body():
    """Compiles the program as a module, or as a function where it returns."""
    flags = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
    try:
        return compile(code, path, "exec", flags, True)
    except SyntaxError as error:
        if "outside function" not in str(error.msg):
            raise
    tree = ast.parse(code, path)
    wrapped = ast.parse("async def _body(): pass")
    if tree.body:
        wrapped.body[0].body = tree.body
    own = {}
    exec(compile(wrapped, path, "exec", 0, True), names, own)
    return own["_body"]


def theirs(tb):
    """Takes the frames that are not the program's out of a traceback."""
    frames = []
    while tb is not None:
        frames.append(tb)
        tb = tb.tb_next
    for i, tb in enumerate(frames):
        if tb.tb_frame.f_code is program_code:
            del frames[:i]
            break
    else:
        return None  # the program did not run
    shown = None
    for tb in reversed(frames):
        if tb.tb_frame.f_code.co_filename != "<tools>":
            shown = types.TracebackType(shown, tb.tb_frame, tb.tb_lasti, tb.tb_lineno)
    return shown


def report(error):
    if isinstance(error, SyntaxError) and error.filename == path:
        # The compiler reads the line from the file of that name.
        error.text = lines[error.lineno - 1] if 0 < (error.lineno or 0) <= len(lines) else None
    error = error.with_traceback(theirs(error.__traceback__))
    sys.last_type, sys.last_value, sys.last_traceback = type(error), error, error.__traceback__
    if sys.excepthook is not sys.__excepthook__:
        sys.excepthook(type(error), error, error.__traceback__)
    else:
        traceback.print_exception(type(error), error, error.__traceback__)


program_code = None
status = 0
try:
    program = body()
    program_code = getattr(program, "__code__", program)
    if program_code.co_flags & inspect.CO_COROUTINE:
        asyncio.run = run
        try:
            plain_run(program() if callable(program) else eval(program, names))
        finally:
            asyncio.run = plain_run
    else:
        exec(program, names)
except SystemExit:
    raise
except BaseException as error:
    report(error)
    status = 130 if isinstance(error, KeyboardInterrupt) else 1
if status:
    sys.exit(status)
