"""Adapts CPython to the sandbox before the program starts.

CPython imports this module by itself (see the documentation of `site`) and then
runs the program exactly as it would anywhere else. What is changed here:

- sleeping goes through the host, since the C library of this build refuses to;
- select and asyncio wait by sleeping, and for the control channel of a run, as
  there are no sockets to wait for;
- threads, processes and the network fail with their usual exceptions and a
  text that says why;
- the recursion limit stays below what takes the interpreter longer to unwind than
  programs have;
- no byte code is written, and output appears line by line, so that what a
  program printed is not lost when it is stopped.

Modules that cost time to import are patched when the program imports them.
"""

import _thread
import errno
import os
import select
import sys
import time

_SLEEP_ADVICE = 0x7E57  # guest.SleepAdvice in the host
_WAIT_ADVICE = 0x7E58  # guest.WaitAdvice
_MAX_NANOSECONDS = 2**63 - 1
_MAX_RECURSION = 500_000  # some 100 MB, and four seconds


def _restore_environment():
    """Takes back what the host set only to get this module loaded."""
    library = os.path.dirname(__file__)
    sys.path[:] = [p for p in sys.path if p != library]
    for name in ("PYTHONPATH", "PYTHONUTF8"):
        asked = os.environ.pop("CAISSON_" + name, None)
        if asked is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = asked
    os.chdir(os.environ.get("PWD") or "/mnt/data")
    sys.path_importer_cache.pop(library, None)


def sleep(seconds, /):
    """Delay execution for a given number of seconds."""
    if not hasattr(seconds, "__float__") and not hasattr(seconds, "__index__"):
        raise TypeError(
            f"'{type(seconds).__name__}' object cannot be interpreted as an integer"
        )
    nanoseconds = int(float(seconds) * 1_000_000_000)
    if nanoseconds < 0:
        raise ValueError("sleep length must be non-negative")
    if nanoseconds > _MAX_NANOSECONDS:
        raise OverflowError("timestamp too large to convert to C _PyTime_t")
    os.posix_fadvise(0, nanoseconds, _SLEEP_ADVICE, 0)


_set_recursion_limit = sys.setrecursionlimit


def setrecursionlimit(limit, /):
    """Set the maximum depth of the Python interpreter stack to n."""
    _set_recursion_limit(min(limit, _MAX_RECURSION) if isinstance(limit, int) else limit)


_TICK = 0.02  # how long one of several channels is waited for


def _readable(file, nanoseconds):
    """Waits until a file can be read. Only the control channel is not always ready."""
    fd = file if isinstance(file, int) else file.fileno()
    try:
        os.posix_fadvise(fd, nanoseconds, _WAIT_ADVICE, 0)
    except OSError as e:
        return e.errno != errno.EAGAIN
    return True


def _wait(readers, writers, exceptional, timeout=None, /):
    """Replaces select.select: what can be written is always ready, and so are files
    and standard streams."""
    readers, writers = list(readers), list(writers)
    if timeout is None:
        timeout = _MAX_NANOSECONDS // 1_000_000_000
    end = time.monotonic() + timeout
    while readers:
        ready = [f for f in readers if _readable(f, 0)]
        left = end - time.monotonic()
        if ready or writers or left <= 0:
            return ready, writers, []
        if len(readers) > 1:
            left = min(left, _TICK)
        _readable(readers[0], min(int(left * 1_000_000_000) + 1, _MAX_NANOSECONDS))
    if not writers:
        sleep(max(timeout, 0))
    return [], writers, []


def _no_threads(function, args, kwargs={}, /):
    raise RuntimeError("can't start new thread: this sandbox has no threads")


def _no_processes(what):
    return OSError(errno.ENOTSUP, f"this sandbox cannot start processes: {what}")


def _no_network():
    return OSError(errno.ENETUNREACH, "this sandbox has no network")


def _patch_os():
    def system(command):
        raise _no_processes(command)

    os.system = system
    os.cpu_count = lambda: 1


def _patch_subprocess(module):
    def __init__(self, args, *rest, **options):
        raise _no_processes(args)

    module.Popen.__init__ = __init__


def _patch_socket(module):
    import _socket

    def __init__(self, *args, **options):
        # A socket made from a descriptor would fail later and less clearly.
        raise _no_network()

    def refuse(host=None, *args, **options):
        raise module.gaierror(
            getattr(module, "EAI_AGAIN", -3), f"this sandbox has no network: {host}"
        )

    module.socket.__init__ = __init__
    for name in ("getaddrinfo", "gethostbyname", "gethostbyname_ex", "gethostbyaddr", "getnameinfo"):
        setattr(_socket, name, refuse)
        if name != "getaddrinfo" or not hasattr(module, name):
            setattr(module, name, refuse)
    module.gethostname = _socket.gethostname = lambda: "sandbox"


def _patch_urllib_request(module):
    build_opener = module.build_opener

    class HTTPSHandler(module.BaseHandler):
        def https_open(self, request):
            raise module.URLError(_no_network())

    def with_https(*handlers):
        opener = build_opener(*handlers)
        if not hasattr(module, "HTTPSHandler"):
            opener.add_handler(HTTPSHandler())
        return opener

    module.build_opener = with_https


def _patch_selector_events(module):
    """Lets event loops do without the socket pair that wakes them from threads."""
    loop = module.BaseSelectorEventLoop

    def nothing(self, *args):
        pass

    def _make_self_pipe(self):
        self._ssock = self._csock = None

    loop._make_self_pipe = _make_self_pipe
    loop._close_self_pipe = nothing
    loop._write_to_self = nothing


class _PatchOnImport:
    """A finder that lets the others find a module and patches it once loaded."""

    def __init__(self, patches):
        self._patches = patches

    def find_spec(self, name, path=None, target=None):
        patch = self._patches.pop(name, None)
        if patch is None:
            return None
        for finder in sys.meta_path:
            if finder is self:
                continue
            spec = finder.find_spec(name, path, target)
            if spec is not None:
                spec.loader = _PatchingLoader(spec.loader, patch)
                return spec
        return None


class _PatchingLoader:
    def __init__(self, loader, patch):
        self._loader = loader
        self._patch = patch

    def __getattr__(self, name):
        return getattr(self._loader, name)

    def create_module(self, spec):
        return self._loader.create_module(spec)

    def exec_module(self, module):
        module.__loader__ = module.__spec__.loader = self._loader
        self._loader.exec_module(module)
        self._patch(module)


def _main():
    _restore_environment()
    sys.dont_write_bytecode = True
    sys.setrecursionlimit(1000)
    sys.setrecursionlimit = staticmethod(setrecursionlimit)
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(line_buffering=True)
    # Static, as functions in C are: they do not become methods of a class
    # that has them as an attribute, which selectors rely on.
    time.sleep = staticmethod(sleep)
    _thread.start_new_thread = _no_threads
    _thread.start_new = _no_threads
    select.select = staticmethod(_wait)
    if hasattr(select, "poll"):
        del select.poll  # so that selectors choose select
    _patch_os()
    sys.meta_path.insert(
        0,
        _PatchOnImport(
            {
                "asyncio.selector_events": _patch_selector_events,
                "socket": _patch_socket,
                "subprocess": _patch_subprocess,
                "urllib.request": _patch_urllib_request,
            }
        ),
    )


_main()
