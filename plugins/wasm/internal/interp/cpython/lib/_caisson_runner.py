"""Runs one program in an interpreter that was booted before.

The host executes this text once, keeps an image of the memory when it has ended,
and starts every run from a copy of the image by calling start(). A run ends with
os._exit: the frames below it belong to the boot and are not there any more.

What run() does is what the command line `python3 FILE ARGS` would do, in the
same order and with the same output; tests compare the two.
"""

import atexit
import builtins
import gc
import importlib.machinery
import io
import json
import linecache
import os
import random
import struct
import sys
import time
import traceback
import types

# What programs import most. Imported now, it costs them nothing.
for _name in (
    "asyncio base64 bisect collections contextlib copy csv dataclasses datetime decimal enum "
    "fractions functools hashlib heapq itertools logging math operator pathlib re statistics "
    "string tempfile textwrap types typing unittest uuid"
).split():
    __import__(_name)
import logging

_BOOT_ENVIRONMENT = 0xFFFFFFFF  # instead of the length of another

_main = sys.modules["__main__"].__dict__
_path = None  # where modules are found besides the program's own places
_modules = None  # names of those that were there before the program
_newest = None  # the last of them
_usual = None  # sys.path of most programs
_names = None  # of the main module before the program
_environ = None  # the environment of the boot
_handlers = None  # of logging, before the program


def _receive():
    """Returns the parts of the job, which begins with their lengths. What follows it is
    the program's input: the host answers the first read with no more than the job."""
    b = os.read(0, 0x10000)
    argv, env, source = struct.unpack("<III", b[:12])
    env, kept = (0, True) if env == _BOOT_ENVIRONMENT else (env, False)
    end = 12 + argv + env + source
    while len(b) < end:
        part = os.read(0, end - len(b))
        if not part:
            os._exit(125)
        b += part
    env += 12 + argv
    return b[12 : 12 + argv], None if kept else b[12 + argv : env], b[env:]


def _seed_when_used():
    """Seeds the random numbers of a run when something first looks into the module,
    which most programs do not. Nothing else has a hold of its generator."""
    usual, seed, generator = type(random), random.seed, random._inst

    class module(usual):
        __slots__ = ()

        def __getattribute__(self, name):
            random.__class__ = usual
            seed()
            return getattr(self, name)

    for m in sys.modules.values():
        if m is not random and any(getattr(v, "__self__", None) is generator for v in list(vars(m).values())):
            raise RuntimeError(f"{m.__name__} draws random numbers by itself")
    random.__class__ = module


def _unbuffered(fd, errors):
    raw = io.FileIO(fd, "w", closefd=False)
    raw.name = "<stdout>" if fd == 1 else "<stderr>"
    stream = io.TextIOWrapper(raw, "utf-8", errors, newline="\n", write_through=True)
    stream.mode = "w"
    return stream


_streams = (_unbuffered(1, sys.stdout.errors), _unbuffered(2, "backslashreplace"))


def _prepare(argv, env):
    own = None
    if env is not None:  # else that of the boot
        for name in _environ.keys() - env.keys():
            del os.environ[name]
        for name, value in env.items():
            if _environ.get(name) != value:
                os.environ[name] = value
        own = env.get("PYTHONPATH")
        os.chdir(env.get("PWD") or "/mnt/data")
        if env.get("PYTHONUNBUFFERED"):
            sys.stdout, sys.stderr = sys.__stdout__, sys.__stderr__ = _streams
    directory = argv[0].rpartition("/")[0]
    sys.path[:] = _paths(directory, own) if own or directory != "/run/caisson" else _usual
    sys.argv[:] = argv
    sys.orig_argv[:] = ["python3", *argv]
    logging._startTime = time.time()


def _paths(directory, own):
    path = [directory, "/mnt/data", *filter(None, (own or "").split(":")), *_path]
    return list(dict.fromkeys(path))  # each once, as site does it


def _compile(path, source):
    _main.update(
        __file__=path, __cached__=None, __doc__=None, __package__=None, __spec__=None,
        __loader__=importlib.machinery.SourceFileLoader("__main__", path),
    )
    return compile(source, path, "exec", dont_inherit=True)


def _report(error, skip):
    """Shows an exception that nobody caught. The first frame is of this file, and
    where the program did not run yet, all are."""
    tb = error.__traceback__.tb_next if skip == 1 else None
    error = error.with_traceback(tb)
    sys.last_type, sys.last_value, sys.last_traceback = type(error), error, tb
    try:
        sys.excepthook(type(error), error, tb)
    except Exception as e:
        e.__context__ = None
        e = e.with_traceback(e.__traceback__.tb_next)
        print("Error in sys.excepthook:", file=sys.stderr)
        sys.__excepthook__(type(e), e, e.__traceback__)
        print("\nOriginal exception was:", file=sys.stderr)
        sys.__excepthook__(type(error), error, tb)


def _status(exit):
    code = exit.code
    if code is None:
        return 0
    if isinstance(code, int):
        return code & 0xFF
    print(code, file=sys.stderr)
    return 1


def _finish():
    """Does what the interpreter's own shutdown does for programs: their exit
    functions run, and what they left open is closed, so that nothing they wrote
    stays in a buffer."""
    atexit._run_exitfuncs()
    if logging._handlerList != _handlers:
        logging.shutdown()
    ours = ()
    # Most programs add none: then there are as many, and the last is the same.
    if (len(sys.modules) != len(_modules) or next(reversed(sys.modules)) != _newest) and not _modules.issuperset(sys.modules):
        ours = [m for name, m in sys.modules.items() if name not in _modules and hasattr(m, "__dict__")]
    for d in (_main, *(m.__dict__ for m in ours)):
        names = [name for name in d if name not in _names]
        for private in (True, False):
            for name in names:
                if (name[:1] == "_" and name[1:2] != "_") == private:
                    d[name] = None
    del ours, d
    # What the program made is young, unless it made much; only then is it worth a look
    # at all there is.
    gc.collect(2 if gc.get_objects(generation=2) else 1)


def run():
    argv, env, source = _receive()
    argv = argv.decode().split("\0")
    if env is not None:
        env = dict(v.split("=", 1) for v in env.decode().split("\0"))
    _prepare(argv, env)
    gc.enable()
    code = skip = 0
    try:
        program = _compile(argv[0], source)
        skip = 1
        exec(program, _main)
    except SystemExit as e:
        code = _status(e)
    except BaseException as e:
        _report(e, skip)
        code = 130 if isinstance(e, KeyboardInterrupt) else 1
    program = argv = env = source = None
    try:
        _finish()
    except BaseException as e:
        _report(e, 0)
    for stream in (sys.stdout, sys.stderr):
        try:
            if stream is not None and not stream.closed:
                stream.flush()
        except BaseException:
            code = code or 120
    os._exit(code)


def start():
    """Runs a program, and says why if that cannot even be begun."""
    try:
        run()
    except BaseException as e:
        sys.__excepthook__(type(e), e, e.__traceback__)
    os._exit(1)


def _warm():
    """Uses once what every run uses, so that first-use costs are in the image."""
    exec(compile(b"# -*- coding: utf-8 -*-\nprint(end='')\n", "warm", "exec", dont_inherit=True), {})
    json.loads(json.dumps({"argv": ["x"], "env": {"A": "b"}}))
    try:
        exec(compile("1/0", "warm", "exec"), {})
    except ZeroDivisionError as e:
        "".join(traceback.format_exception(e))
    linecache.clearcache()


def boot():
    global _environ, _handlers, _modules, _names, _newest, _path, _usual
    library = os.path.dirname(__file__)
    _path = [p for p in sys.path if p not in ("", library, "/mnt/data")]
    sys.path_importer_cache.pop(library, None)
    del sys.modules[__name__]
    command = b"__caisson_run__()\0"
    builtins.__caisson_run__ = run
    builtins.__caisson_command__ = command
    _warm()
    for name in [n for n in _main if not n.startswith("__")]:
        del _main[name]
    _environ = dict(os.environ)
    _names = frozenset(_main) | {"__file__", "__cached__"}
    _usual = _paths("/run/caisson", None)
    _modules = frozenset(sys.modules)
    _newest = next(reversed(sys.modules))
    _seed_when_used()
    atexit.unregister(logging.shutdown)  # run() does that if there is anything to do
    _handlers = logging._handlerList[:]
    gc.collect()
    gc.freeze()
    gc.disable()
    # The image is taken when the host is asked for the time after this: in C,
    # with no Python frame left.
    atexit.register(time.time)
    os.write(1, b"addresses %d %d\n" % (id(command), id(start)))

