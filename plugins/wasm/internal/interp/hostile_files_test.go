package interp

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/caisson-run/caisson/plugins/wasm/internal/rootfs"
)

// Programs that are out to hurt the host through files. Each has an end that it can
// see, and after each the host is as it was: the account is right, nothing is open,
// the next program runs, and the directory can be removed.

// hostileLimits are small, so that every shape reaches its limit soon.
var hostileLimits = rootfs.Limits{Bytes: 1 << 20, Entries: 300, Depth: 16, OpenFiles: 32}

// hostile runs a shape and checks what it printed and what it left.
func hostile(t *testing.T, interpreter, file, source, want string, prepare ...func(dir string)) {
	t.Helper()
	need(t, interpreter)
	s := newSandbox(t)
	quota := rootfs.NewQuota(hostileLimits)
	for _, f := range prepare {
		f(s.data)
	}
	if err := quota.Measure(t.Context(), s.root); err != nil {
		t.Fatal(err)
	}
	p := s.program(interpreter, file, source)
	p.Data.Quota = quota
	p.Tmp.Quota = rootfs.NewQuota(hostileLimits)
	next := s.program(interpreter, "next"+filepath.Ext(file), map[string]string{"python3": "print('fine')", "node": "console.log('fine')"}[interpreter])
	s.expect(s.run(context.Background(), next), 0, "fine\n", "") // whatever is opened once, is now
	before := descriptors(t)
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	o := s.run(ctx, p)
	s.expect(o, 0, want, "")
	if after := descriptors(t); after > before {
		t.Errorf("%d descriptors are open, %d before", after, before)
	}
	bytes, entries := quota.Used()
	if err := quota.Measure(t.Context(), s.root); err != nil {
		t.Fatal(err)
	}
	if b, e := quota.Used(); b != bytes || e != entries {
		t.Errorf("the account says %d bytes, %d entries; there are %d and %d", bytes, entries, b, e)
	}
	s.expect(s.run(context.Background(), next), 0, "fine\n", "")
	if err := rootfs.NewTree(s.root, quota).RemoveAll(t.Context(), "."); err == nil {
		t.Error("the root itself was removed")
	}
	if left, _ := os.ReadDir(s.data); len(left) > 0 {
		t.Errorf("%d entries cannot be removed", len(left))
	}
	if b, e := quota.Used(); b != 0 || e != 0 {
		t.Errorf("with everything removed the account says %d bytes, %d entries", b, e)
	}
}

// descriptors counts what this process has open.
func descriptors(t *testing.T) int {
	t.Helper()
	list, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Skip("the system does not tell what is open")
	}
	return len(list)
}

// prelude of the Python shapes: name tells an error by its number's name.
const prelude = `
import errno, os
def name(f, *a):
    try:
        f(*a)
        return "ok"
    except OSError as e:
        return errno.errorcode.get(e.errno, e.errno)
def fill(f, most=2_000_000):
    for i in range(most):
        e = name(f, i)
        if e != "ok":
            return f"{e} after {i}"
    return f"no end after {most}"
def put(i): open(f"f{i}", "x").close()
`

func TestHostileFilesInPython(t *testing.T) {
	for shape, c := range map[string]struct {
		source, want string
		prepare      func(dir string)
	}{
		"a million files":       {"print(fill(put, 1_000_000))", "ENOSPC after 300\n", nil},
		"a million directories": {"print(fill(lambda i: os.mkdir(f'd{i}'), 1_000_000))", "ENOSPC after 300\n", nil},
		"a million links": {`
put(0)
print(fill(lambda i: os.symlink("f0", f"l{i}"), 1_000_000))
for i in range(100): os.unlink(f"l{i}")
print(fill(lambda i: os.link("f0", f"h{i}"), 1_000_000))
`, "ENOSPC after 299\nENOSPC after 100\n", nil},
		"a deep tree": {`
def deeper(i):
    os.mkdir("d"); os.chdir("d")
print(fill(deeper))
os.chdir("/mnt/data")
def longer(i): os.mkdir("/".join(["d"] * 10 + ["x"] * (i + 1)))
print(fill(longer))
print(name(os.rename, "d/d/d/d/d/d/d/d", "e"), name(os.rename, "e", "d/d/d/d/d/d/d/e"), name(os.mkdir, "d/d/d/d/d/d/d/e/d/d/d/d/d/d/d/d/d"))
os.symlink("d/d/d/d/d/d/d/e/d/d/d/d/d/d/d", "short")
print(name(os.mkdir, "short/d"), name(os.mkdir, "short/d/d"))
`, "ENAMETOOLONG after 16\nENAMETOOLONG after 6\nok ok ENAMETOOLONG\nEEXIST ENAMETOOLONG\n", nil},
		"a sparse terabyte": {`
f = open("f", "wb", 0)
print(name(f.truncate, 1 << 40), name(os.pwrite if hasattr(os, "pwrite") else lambda *a: (f.seek(a[2]), f.write(a[1])), f.fileno(), b"x", 1 << 40))
f.seek(1 << 62)
print(name(f.write, b"x"), os.stat("f").st_size)
print(name(f.truncate, 1 << 20), name(f.truncate, (1 << 20) + 1), os.stat("f").st_size)
print(name(os.posix_fallocate, f.fileno(), 0, 1 << 40) if hasattr(os, "posix_fallocate") else "ENOSPC")
`, "ENOSPC ENOSPC\nENOSPC 0\nok ENOSPC 1048576\nENOSPC\n", nil},
		"endless writing": {`
f = open("f", "wb", 0)
print(fill(lambda i: f.write(b"x" * 1000)), os.stat("f").st_size)
print(name(f.write, b"x" * 576), name(f.write, b"x"), os.stat("f").st_size)
`, "ENOSPC after 1048 1048000\nok ENOSPC 1048576\n", nil},
		"one enormous write": {`
f = open("f", "wb", 0)
print(name(f.write, bytes(200 << 20)), os.stat("f").st_size)
`, "ENOSPC 0\n", nil},
		"removed but open": {`
def hidden(i):
    f = open("f", "wb", 0)
    f.write(bytes(300_000))
    os.unlink("f")
    kept.append(f)
kept = []
print(fill(hidden), os.listdir("."))
kept[0].close()
os.unlink("f") if os.path.exists("f") else None
f = open("f", "wb", 0)
print(name(f.write, bytes(300_000)), name(f.write, bytes(300_000)))
`, "ENOSPC after 3 ['f']\nok ENOSPC\n", nil},
		"replaced while open": {`
a = open("a", "wb+", 0); a.write(bytes(600_000))
b = open("b", "wb", 0); b.write(bytes(400_000))
os.rename("b", "a")
print(name(b.write, bytes(400_000)), os.stat("a").st_size, len(os.pread(a.fileno(), 10, 599_990)) if hasattr(os, "pread") else 10)
a.close()
print(name(b.write, bytes(600_000)), os.stat("a").st_size)
for i in range(50):
    with open("c", "wb") as c: c.write(bytes(20_000 + i))
    os.replace("c", "a")
    os.truncate("a", 40_000); os.truncate("a", 5)
print(os.stat("a").st_size)
`, "ENOSPC 400000 10\nok 1000000\n5\n", nil},
		"descriptors": {`
put(0)
kept = []
print(fill(lambda i: kept.append(open("f0", "rb", 0))))
kept.pop().close()
print(name(lambda: kept.append(os.open(".", os.O_RDONLY))), name(os.listdir, "."), name(os.mkdir, "d"))
print(fill(lambda i: kept.append(os.open("/", os.O_RDONLY)), 100_000).split()[0])
`, "EMFILE after 31\nok EMFILE ok\nEAGAIN\n", nil},
		"names": {`
for n in b"a\nb", b"bad\xff\xfe", b"n" * 255, b"n" * 256, "é✓😀".encode(), b"a\\b", b" ", b"-rf", b"*":
    print(name(lambda: open(n, "x").close()), end=" ")
print(sorted(len(os.fsencode(n)) for n in os.listdir(".")))
`, "ok EPERM ok ENAMETOOLONG ok ok ok ok ok [1, 1, 3, 3, 3, 9, 255]\n", nil},
		"out of here": {`
put(0)
for target in "/etc/passwd", "../../etc/passwd", "/run/caisson/main.py", "/mnt", "..":
    print(name(os.symlink, target, "s"), name(os.link, target, "h"), name(os.rename, "f0", target), end=" ")
os.makedirs("d/e"); os.symlink("../../f0", "d/e/s"); os.rename("d/e/s", "s")
# The C library of the interpreter makes chmod a success that does nothing.
print(name(open, "s"), name(os.chmod, "s", 0o777), name(os.rename, "f0", "s/x"), name(os.link, "s", "h"))
`, "EPERM EXDEV EXDEV EPERM EPERM EPERM EPERM EXDEV EXDEV EPERM EXDEV EXDEV EPERM EPERM EPERM EPERM ok EPERM EPERM\n", nil},
		"what others left": {`
for n in "fifo", "out":
    print(name(open, n), name(open, n, "w"), name(os.stat, n), name(os.link, n, "h"), end=" ")
print(open("hard").read(), sorted(os.listdir(".")))
`, "EACCES EACCES ok EPERM EPERM EPERM EPERM EPERM inside ['fifo', 'hard', 'inside', 'out']\n", func(dir string) {
			_ = syscall.Mkfifo(dir+"/fifo", 0o666)
			_ = os.Symlink("/etc/passwd", dir+"/out")
			_ = os.WriteFile(dir+"/inside", []byte("inside"), 0o600)
			_ = os.Link(dir+"/inside", dir+"/hard")
		}},
		"a huge directory": {`
n = 0
with os.scandir(".") as entries:
    for e in entries: n += e.is_file()
print(n, len(os.listdir(".")), name(put, "more"))
`, "5000 5000 ENOSPC\n", func(dir string) {
			for i := range 5_000 {
				_ = os.WriteFile(fmt.Sprintf("%s/%0200d", dir, i), nil, 0o600)
			}
		}},
	} {
		t.Run(shape, func(t *testing.T) {
			prepare := []func(string){}
			if c.prepare != nil {
				prepare = append(prepare, c.prepare)
			}
			hostile(t, "python3", "main.py", prelude+c.source, c.want, prepare...)
		})
	}
}

// jsPrelude is prelude for JavaScript.
const jsPrelude = `
const fs = require('fs'), path = require('path');
function name(f, ...a) { try { f(...a); return 'ok' } catch (e) { return e.code || String(e) } }
function fill(f, most = 2_000_000) {
  for (let i = 0; i < most; i++) { const e = name(f, i); if (e !== 'ok') return e + ' after ' + i }
  return 'no end after ' + most
}
const put = i => fs.writeFileSync('f' + i, '', { flag: 'wx' })
`

func TestHostileFilesInJavaScript(t *testing.T) {
	for shape, c := range map[string]struct {
		source, want string
		prepare      func(dir string)
	}{
		"a million files":       {"console.log(fill(put))", "ENOSPC after 300\n", nil},
		"a million directories": {"console.log(fill(i => fs.mkdirSync('d' + i)))", "ENOSPC after 300\n", nil},
		"a deep tree":           {"console.log(fill(i => fs.mkdirSync(Array(i + 1).fill('d').join('/'))))", "ENAMETOOLONG after 16\n", nil},
		"a deep tree at once":   {"console.log(name(fs.mkdirSync, Array(17).fill('d').join('/'), { recursive: true }))", "ENAMETOOLONG\n", nil},
		"a sparse terabyte": {`
put(0)
console.log(name(fs.truncateSync, 'f0', 2 ** 40), name(fs.truncateSync, 'f0', 2 ** 20), name(fs.truncateSync, 'f0', 2 ** 20 + 1), fs.statSync('f0').size)
`, "ENOSPC ok ENOSPC 1048576\n", nil},
		"endless writing": {`
put(0)
console.log(fill(() => fs.appendFileSync('f0', 'x'.repeat(1000))), fs.statSync('f0').size)
console.log(name(fs.appendFileSync, 'f0', 'x'.repeat(576)), name(fs.appendFileSync, 'f0', 'x'), fs.statSync('f0').size)
`, "ENOSPC after 1048 1048000\nok ENOSPC 1048576\n", nil},
		"names": {`
console.log(...['a\nb', 'n'.repeat(255), 'n'.repeat(256), 'é✓😀', '\ud800', '\ud800x', 'nul\0'].map(n => name(fs.writeFileSync, n, '')))
console.log(fs.readdirSync('.').length)
`, "ok ok ENAMETOOLONG ok ok ok ERR_INVALID_ARG_VALUE\n5\n", nil},
		"out of here": {`
put(0)
for (const target of ['/etc/passwd', '../../etc/passwd', '..'])
  console.log(name(fs.symlinkSync, target, 's'), name(fs.renameSync, 'f0', target), name(fs.readFileSync, target), name(fs.writeFileSync, target, ''))
fs.mkdirSync('d/e', { recursive: true }); fs.symlinkSync('../../f0', 'd/e/s'); fs.renameSync('d/e/s', 's')
console.log(name(fs.readFileSync, 's'), name(fs.writeFileSync, 's', ''))
`, "EPERM EROFS ENOENT EROFS\nEPERM EROFS ENOENT EROFS\nEPERM EROFS ENOENT EROFS\nEPERM EPERM\n", nil},
		"a huge directory": {`
console.log(fs.readdirSync('.').length, name(put, 'more'))
`, "5000 ENOSPC\n", func(dir string) {
			for i := range 5_000 {
				_ = os.WriteFile(fmt.Sprintf("%s/%0200d", dir, i), nil, 0o600)
			}
		}},
	} {
		t.Run(shape, func(t *testing.T) {
			prepare := []func(string){}
			if c.prepare != nil {
				prepare = append(prepare, c.prepare)
			}
			hostile(t, "node", "main.js", jsPrelude+c.source, c.want, prepare...)
		})
	}
}
