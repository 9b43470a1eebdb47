package interp

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// python runs source as a script in s.
func (s *sandbox) python(source string, args ...string) out {
	s.t.Helper()
	need(s.t, "python3")
	return s.run(context.Background(), s.program("python3", "main.py", source, args...))
}

func TestPythonHello(t *testing.T) {
	s := newSandbox(t)
	s.expect(s.python("import sys\nprint('hi')\nprint('err', file=sys.stderr)"), 0, "hi\n", "err\n")
}

func TestPythonTraceback(t *testing.T) {
	s := newSandbox(t)
	s.expect(s.python("def f(x):\n    return 1 / x\n\nf(0)\n"), 1, "", `Traceback (most recent call last):
  File "/run/caisson/main.py", line 4, in <module>
    f(0)
  File "/run/caisson/main.py", line 2, in f
    return 1 / x
           ~~^~~
ZeroDivisionError: division by zero
`)
	s.expect(s.python("x = = 1\n"), 1, "", `  File "/run/caisson/main.py", line 1
    x = = 1
        ^
SyntaxError: invalid syntax
`)
	// The runner's frames lie below the program's and show only to who looks for them.
	s.expect(s.python("import inspect, traceback\nprint(inspect.stack()[0].filename, traceback.extract_stack()[-1].name)"), 0, "/run/caisson/main.py <module>\n", "")
	s.expect(s.python("import numpy"), 1, "", `Traceback (most recent call last):
  File "/run/caisson/main.py", line 1, in <module>
    import numpy
ModuleNotFoundError: No module named 'numpy'
`)
	o := s.python("class A:\n    def __del__(self): raise ValueError('x')\na = A()\ndel a\nprint('on')")
	if o.Code != 0 || o.stdout != "on\n" || !strings.HasPrefix(o.stderr, "Exception ignored in: <function A.__del__ at ") ||
		!strings.HasSuffix(o.stderr, "\nValueError: x\n") {
		t.Errorf("unraisable: %+v", o)
	}
}

func TestPythonExitCodes(t *testing.T) {
	s := newSandbox(t)
	for _, tc := range []struct {
		source         string
		code           int
		stdout, stderr string
	}{
		{"import sys; sys.exit(3)", 3, "", ""},
		{"import sys; sys.exit()", 0, "", ""},
		{"import sys; sys.exit('bad thing')", 1, "", "bad thing\n"},
		{"import sys; sys.exit(259)", 3, "", ""},
		{"import sys; sys.exit(-1)", 255, "", ""},
		{"import sys; sys.exit(-268435457)", 255, "", ""},
		{"import os; os._exit(-1)", 255, "", ""},
		{"raise SystemExit(4)", 4, "", ""},
		{"import os; os._exit(5)", 5, "", ""},
		{"import atexit; atexit.register(print, 'bye'); raise SystemExit(6)", 6, "bye\n", ""},
		{"print(end='no newline')", 0, "no newline", ""},
	} {
		s.expect(s.python(tc.source), tc.code, tc.stdout, tc.stderr)
	}
	if o := s.python("import os; os.abort()"); o.Code != 134 || o.Reason != ReasonExit || o.Err == nil {
		t.Errorf("abort: %+v", o)
	}
	p := s.program("python3", "main.py", "")
	p.Argv[1] = EntryDir + "/absent.py"
	o := s.run(context.Background(), p)
	if o.Code != 2 || !strings.Contains(o.stderr, "can't open file '/run/caisson/absent.py'") {
		t.Errorf("absent file: %+v", o)
	}
}

func TestPythonWorld(t *testing.T) {
	s := newSandbox(t)
	s.file("helper.py", "def greet(): return 'from the helper'\n")
	s.file("pkg/__init__.py", "from . import sub\n")
	s.file("pkg/sub.py", "value = 7\n")
	p := s.program("python3", "main.py", `
import os, sys, helper, pkg
print(__name__, __file__, os.getcwd())
print(sys.argv)
print(helper.greet(), pkg.sub.value)
print(sorted(os.environ.items()))
print([p for p in sys.path if 'usr' not in p], sys.orig_argv[:2])
print('PYTHONPATH' in os.environ, sys.dont_write_bytecode)
`, "a b", `"q'`, "new\nline", "$(id)", "-x", "", "é✓😀")
	p.Env = map[string]string{"A": "b c", "ÜNI": "✓", "EMPTY": ""}
	s.expect(s.run(context.Background(), p), 0, `__main__ /run/caisson/main.py /mnt/data
['/run/caisson/main.py', 'a b', '"q\'', 'new\nline', '$(id)', '-x', '', 'é✓😀']
from the helper 7
[('A', 'b c'), ('EMPTY', ''), ('HOME', '/mnt/data'), ('LANG', 'C.UTF-8'), ('PATH', '/usr/local/bin:/usr/bin:/bin'), ('PWD', '/mnt/data'), ('TMPDIR', '/tmp'), ('ÜNI', '✓')]
['/run/caisson', '/mnt/data'] ['python3', '/run/caisson/main.py']
False True
`, "")
	if _, err := os.Stat(filepath.Join(s.data, "__pycache__")); err == nil {
		t.Error("byte code was left in /mnt/data")
	}
	p = s.program("python3", "main.py", "import os, sys; print(os.environ['PYTHONPATH'], '/mnt/data/pkg' in sys.path, os.environ['PYTHONUTF8'])")
	p.Env = map[string]string{"PYTHONPATH": "/mnt/data/pkg", "PYTHONUTF8": "0"}
	s.expect(s.run(context.Background(), p), 0, "/mnt/data/pkg True 0\n", "")
}

func TestPythonStdin(t *testing.T) {
	s := newSandbox(t)
	s.expect(s.python("import sys\nprint(repr(sys.stdin.read()))"), 0, "''\n", "")
	o := s.python("input()")
	if o.Code != 1 || !strings.HasSuffix(o.stderr, "EOFError: EOF when reading a line\n") {
		t.Errorf("input at the end: %+v", o)
	}
	p := s.program("python3", "main.py", "print(input('? ')); import sys; print(sys.stdin.read().encode())")
	p.Stdin = strings.NewReader("é✓ first\nsecond\n")
	s.expect(s.run(context.Background(), p), 0, "? é✓ first\nb'second\\n'\n", "")
}

func TestPythonFiles(t *testing.T) {
	s := newSandbox(t)
	s.file("in.csv", "a,b\n1,2\n")
	s.expect(s.python(`
import csv, os, pathlib, shutil, tempfile, json, sqlite3, zipfile
rows = list(csv.DictReader(open('in.csv')))
print(rows)
os.makedirs('out/deep', exist_ok=True)
pathlib.Path('/mnt/data/out/ü ✓.txt').write_text('häß', encoding='utf-8')
with open('/mnt/data//out/deep/a.bin', 'wb') as f: f.write(bytes(range(256)))
os.rename('out/deep/a.bin', 'out/b.bin')
print(sorted(os.listdir('out')), os.path.getsize('out/b.bin'))
os.symlink('b.bin', 'out/link'); print(os.readlink('out/link'), len(open('out/link', 'rb').read()))
shutil.copytree('out', 'copy'); shutil.rmtree('copy'); print(os.path.exists('copy'))
print(os.path.expanduser('~'), tempfile.gettempdir(), os.listdir('/tmp'))
with tempfile.NamedTemporaryFile('w+') as f:
    f.write('x'); f.flush(); print(f.name.startswith('/tmp/'), os.path.getsize(f.name))
db = sqlite3.connect('t.db'); db.execute('create table t(x)'); db.execute('insert into t values (1)'); db.commit(); db.close()
print(sqlite3.connect('t.db').execute('select x from t').fetchall())
with zipfile.ZipFile('z.zip', 'w') as z: z.writestr('n', 'content')
json.dump({'k': [1, 2]}, open('j.json', 'w'))
for root, dirs, files in os.walk('out'): print(root, sorted(dirs), sorted(files))
leaked = open('never-closed.txt', 'w'); leaked.write('flushed at exit')
`), 0, `[{'a': '1', 'b': '2'}]
['b.bin', 'deep', 'ü ✓.txt'] 256
b.bin 256
False
/mnt/data /tmp []
True 1
[(1,)]
out ['deep'] ['b.bin', 'link', 'ü ✓.txt']
out/deep [] []
`, "")
	if got := s.content("out/ü ✓.txt"); got != "häß" {
		t.Errorf("text file: %q", got)
	}
	if got := s.content("j.json"); got != `{"k": [1, 2]}` {
		t.Errorf("json file: %q", got)
	}
	if got := s.content("never-closed.txt"); got != "flushed at exit" {
		t.Errorf("file that was never closed: %q", got)
	}
}

func TestPythonEscapesAreRefused(t *testing.T) {
	s := newSandbox(t)
	secret := filepath.Dir(s.data) + "/secret"
	if err := os.WriteFile(secret, []byte("secret"), 0o644); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.Remove(secret) })
	if err := os.Symlink(secret, s.data+"/host-link"); err != nil {
		t.Fatal(err)
	}
	o := s.python(`
import os
def attempt(name, f):
    try: print(name, 'GOT', f())
    except OSError as e: print(name, type(e).__name__)
attempt('dotdot', lambda: open('../secret').read())
attempt('absolute', lambda: open('/etc/passwd').read())
attempt('host link', lambda: open('host-link').read())
attempt('symlink', lambda: os.symlink('../secret', 'x'))
attempt('absolute symlink', lambda: os.symlink('/etc/passwd', 'y'))
attempt('entry', lambda: open('/run/caisson/main.py', 'w'))
attempt('entry dir', lambda: open('/run/caisson/new', 'w'))
attempt('library', lambda: open('/usr/lib/caisson/sitecustomize.py', 'wb', 0).write(b'x'))
attempt('root', lambda: open('/new', 'w'))
print(sorted(os.listdir('.')))
`)
	if strings.Contains(o.stdout, "GOT") || strings.Contains(o.stdout, "root:") || o.Code != 0 {
		t.Errorf("an escape worked: %+v", o)
	}
	if !strings.HasSuffix(o.stdout, "['host-link']\n") {
		t.Errorf("something was left: %+v", o)
	}
}

func TestPythonDiskFull(t *testing.T) {
	s := newSandbox(t)
	p := s.program("python3", "main.py", `
import os
def attempt(f):
    try: f()
    except OSError as e: print(e)
f = open('a', 'wb', buffering=0)
attempt(lambda: f.write(bytes(2_000_000)))
attempt(lambda: f.truncate(1 << 40))
attempt(lambda: f.seek(1 << 40) and f.write(b'x'))
for i in range(5): attempt(lambda: os.mkdir(f'd{i}'))
files = []
for i in range(4): attempt(lambda: files.append(open('a')))
`)
	p.Data.Quota = newQuota(1_000_000, 4, 3)
	s.expect(s.run(context.Background(), p), 0, `[Errno 51] No space left on device
[Errno 51] No space left on device
[Errno 51] No space left on device
[Errno 51] No space left on device: 'd3'
[Errno 51] No space left on device: 'd4'
[Errno 33] No file descriptors available: 'a'
[Errno 33] No file descriptors available: 'a'
[Errno 33] No file descriptors available: 'a'
`, "")
}

func TestPythonPlatformShims(t *testing.T) {
	s := newSandbox(t)
	s.expect(s.python(`
import asyncio, time, select
async def work(n):
    await asyncio.sleep(0.02 * n)
    return n
async def main():
    t = time.monotonic()
    r = await asyncio.gather(*(work(i) for i in (3, 1, 2)))
    assert time.monotonic() - t >= 0.06
    try: await asyncio.wait_for(asyncio.sleep(60), 0.01)
    except TimeoutError: r.append('timeout')
    q = asyncio.Queue(); await q.put(1); r.append(await q.get())
    async with asyncio.TaskGroup() as g: g.create_task(work(0))
    return r
print(asyncio.run(main()), asyncio.new_event_loop().run_until_complete(work(1)))
t = time.monotonic(); time.sleep(0.05); time.sleep(True and 0); select.select([], [], [], 0.01)
print(time.monotonic() - t >= 0.06)
for bad in (-1, 'x', 1e30):
    try: time.sleep(bad)
    except Exception as e: print(type(e).__name__, e)
`), 0, `[3, 1, 2, 'timeout', 1] 1
True
ValueError sleep length must be non-negative
TypeError 'str' object cannot be interpreted as an integer
OverflowError timestamp too large to convert to C _PyTime_t
`, "")
	s.expect(s.python(`
import subprocess, os, threading, socket, urllib.request, _thread
def attempt(f):
    try: print('GOT', f())
    except Exception as e: print(type(e).__name__, e)
attempt(lambda: subprocess.run(['ls', '-l']))
attempt(lambda: os.system('ls'))
attempt(lambda: os.popen('ls').read())
attempt(lambda: threading.Thread(target=print).start())
attempt(lambda: _thread.start_new_thread(print, ()))
attempt(lambda: socket.create_connection(('example.org', 80)))
attempt(lambda: socket.socket())
attempt(lambda: urllib.request.urlopen('http://example.org'))
attempt(lambda: urllib.request.urlopen('https://example.org'))
`), 0, `OSError [Errno 58] this sandbox cannot start processes: ['ls', '-l']
OSError [Errno 58] this sandbox cannot start processes: ls
OSError [Errno 58] this sandbox cannot start processes: ls
RuntimeError can't start new thread: this sandbox has no threads
RuntimeError can't start new thread: this sandbox has no threads
gaierror [Errno 2] this sandbox has no network: example.org
OSError [Errno 40] this sandbox has no network
URLError <urlopen error [Errno 2] this sandbox has no network: example.org>
URLError <urlopen error [Errno 40] this sandbox has no network>
`, "")
}

func TestPythonFreshRandomness(t *testing.T) {
	// The seed of string hashes is the image's; see TestPythonHashSeed.
	const source = "import random, uuid, secrets, os\nprint(random.random(), uuid.uuid4(), secrets.token_hex(8), os.urandom(4).hex(), random.randint(0, 2**60))"
	s := newSandbox(t)
	a, b := strings.Fields(s.python(source).stdout), strings.Fields(s.python(source).stdout)
	if len(a) != 5 || len(b) != 5 {
		t.Fatalf("%v, %v", a, b)
	}
	for i := range a {
		if a[i] == b[i] {
			t.Errorf("value %d repeats: %s", i, a[i])
		}
	}
}

func TestPythonRunsShareFilesOnly(t *testing.T) {
	s := newSandbox(t)
	s.expect(s.python("import os, builtins\nbuiltins.x = 1\nos.environ['X'] = '1'\nopen('/tmp/t', 'w').write('t')\nopen('f', 'w').write('kept')"), 0, "", "")
	s.expect(s.python("import os, builtins\nprint(hasattr(builtins, 'x'), 'X' in os.environ, os.listdir('/tmp'), open('f').read())"),
		0, "False False [] kept\n", "")
}
