package interp

import (
	"bytes"
	"os"
	"os/exec"
	"testing"

	"github.com/caisson-run/caisson/plugins/wasm/internal/packs"
)

// envBuilt lets the tests of this package use the packs that were built on this
// machine. Without it they use those that everybody has.
const envBuilt = "CAISSON_TEST_BUILT"

func locatePacks() *packs.Set {
	s := packs.Locate(packDir)
	if os.Getenv(envBuilt) == "" {
		return s.Fetched()
	}
	return s
}

// TestBuiltPython runs the tests of Python again with the CPython that was built here. Building
// takes minutes, so that they are skipped where nobody did.
func TestBuiltPython(t *testing.T) {
	if os.Getenv(envBuilt) != "" {
		t.Skip("this is the run with the built pack")
	}
	set := packs.Locate(packDir)
	if err := set.Rejected(); err != nil {
		t.Fatal(err)
	}
	if set.Built(packs.CPython) == nil {
		t.Skip(`not built; run "make cpython"`)
	}
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	args := []string{"-test.v", "-test.run=Python|SQL|Fuel|RunsAreTheSame|^TestLanguage/^(py|sql)$"}
	if testing.Short() {
		args = append(args, "-test.short")
	}
	cmd := exec.CommandContext(t.Context(), exe, args...)
	cmd.Env = append(os.Environ(), envBuilt+"=1")
	out, err := cmd.CombinedOutput()
	if err != nil || !bytes.Contains(out, []byte("--- PASS: TestPythonHello")) {
		t.Errorf("%v\n%s", err, out)
	}
}

// The standard library lies in a file of the host's: programs read all of it, with the
// byte code, and change nothing.
func TestBuiltPythonLibrary(t *testing.T) {
	if os.Getenv(envBuilt) == "" {
		t.Skip("the fetched build has its library inside")
	}
	s := newSandbox(t)
	s.expect(s.python(`
import csv, inspect, json, os, textwrap, traceback
home = os.path.dirname(os.__file__)
print(home, csv.__file__[len(home):], os.path.exists(csv.__cached__))
print(inspect.getsource(textwrap.dedent).splitlines()[0], textwrap.dedent.__code__.co_filename == textwrap.__file__)
print(len(os.listdir(home)) > 150, sorted(os.listdir(home + '/json'))[:2])
with open(csv.__file__, 'rb') as f:
    size = f.seek(0, 2)
    f.seek(-10, 1)
    print(size == os.stat(csv.__file__).st_size, len(f.read()))
try:
    json.loads('{')
except ValueError as e:
    print('return _default_decoder.decode(s)' in traceback.format_exc())
for change in (
    lambda: open(csv.__file__, 'w'), lambda: open(csv.__file__, 'r+').write('x'), lambda: open(home + '/new.py', 'x'),
    lambda: os.remove(csv.__file__), lambda: os.mkdir(home + '/new'), lambda: os.rename(csv.__file__, home + '/x.py'),
    lambda: os.rename(csv.__file__, '/mnt/data/x.py'), lambda: os.link(csv.__file__, '/mnt/data/y.py'),
    lambda: os.truncate(csv.__file__, 0), lambda: os.symlink('/mnt/data', home + '/link'), lambda: os.utime(csv.__file__),
    lambda: os.rmdir(home + '/json'), lambda: open(home + '/../../../../../etc/passwd'),
):
    try:
        change()
    except OSError:
        continue
    print('allowed', inspect.getsource(change))
print(os.path.getsize(csv.__file__) == size, os.listdir('/mnt/data'))
`), 0, `/usr/local/lib/python3.11 /csv.py True
def dedent(text): True
True ['__init__.py', '__pycache__']
True 10
True
True []
`, "")
}
