package process

import (
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/caisson-run/caisson/internal/procstat"
)

// A record that names another process, by mistake or by malice, costs that process
// nothing.
func TestForgedRecord(t *testing.T) {
	a := abandon(t, time.Minute)
	a.kill(t)
	paths, err := filepath.Glob(filepath.Join(a.dir, "*"+recordEnding))
	if err != nil || len(paths) != 1 {
		t.Fatalf("%q %v", paths, err)
	}
	good, err := os.ReadFile(paths[0])
	if err != nil {
		t.Fatal(err)
	}
	var r record
	if err := json.Unmarshal(good, &r); err != nil {
		t.Fatal(err)
	}
	victim := exec.Command("/bin/sleep", "1000")
	if err := victim.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = victim.Process.Kill()
		_ = victim.Wait()
	}()
	started, err := procstat.Started(victim.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	keep := r.Sockets
	r.Sockets = filepath.Join(a.tmp, keptPrefix+"nothing")
	for name, c := range map[string]struct {
		change func(r *record)
		mode   os.FileMode
		want   string
	}{
		"its number":       {func(r *record) { r.PID = victim.Process.Pid }, 0o600, "its number is another's"},
		"number and start": {func(r *record) { r.PID, r.Started = victim.Process.Pid, started }, 0o600, "executes another program"},
		"another boot":     {func(r *record) { r.Boot = "x" }, 0o600, "the machine was started since"},
		"init":             {func(r *record) { r.PID = 1 }, 0o600, "not a record"},
		"everybody":        {func(r *record) { r.PID = -1 }, 0o600, "not a record"},
		"another schema":   {func(r *record) { r.Schema = 2 }, 0o600, "not a record"},
		"a directory to remove": {func(r *record) {
			r.PID, r.Sockets = victim.Process.Pid, a.dir
		}, 0o600, "not a record"},
		"open to others": {func(*record) {}, 0o644, "not a file of this user alone"},
	} {
		forged := r
		c.change(&forged)
		b, err := json.Marshal(forged)
		if err == nil {
			err = errors.Join(os.WriteFile(paths[0], b, c.mode), os.Chmod(paths[0], c.mode))
		}
		if err != nil {
			t.Fatal(err)
		}
		if _, err := Adopt(t.Context(), a.spec); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: Adopt = %v, want %q", name, err, c.want)
		}
		if _, err := os.Stat(paths[0]); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s: the record is still there", name)
		}
		if err := victim.Process.Signal(syscall.Signal(0)); err != nil {
			t.Fatalf("%s: another process was ended: %v", name, err)
		}
	}
	// The right one is still good.
	r.Sockets = keep
	log, err := os.Create(r.Log) // which the forged ones had removed
	if err != nil {
		t.Fatal(err)
	}
	log.Close()
	if err := os.WriteFile(paths[0], good, 0o600); err != nil {
		t.Fatal(err)
	}
	if did := EndKept(a.dir, func(name string) bool { return name == "keeps" }); len(did) > 0 {
		t.Errorf("spared, and yet %q", did)
	}
	did := EndKept(a.dir, func(string) bool { return false })
	if len(did) != 1 || !strings.Contains(did[0], "was ended") {
		t.Errorf("EndKept did %q", did)
	}
	a.expectNothingLeft(t)
}

// What a host left that died while it started a process goes after a while.
func TestLooseFiles(t *testing.T) {
	dir := t.TempDir()
	old := time.Now().Add(-time.Hour)
	for name, at := range map[string]time.Time{
		"a-1.log": old, ".kept-1": old, "b-2.log": time.Now(), ".kept-2": time.Now(), "c-3.log": old, "other": old,
	} {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(filepath.Join(dir, name), at, at); err != nil {
			t.Fatal(err)
		}
	}
	held, err := os.Create(filepath.Join(dir, "c-3"+recordEnding))
	if err == nil {
		defer held.Close()
		err = lockFile(held) // by a host that lives
	}
	if err == nil {
		err = held.Chmod(0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	EndKept(dir, func(string) bool { return false })
	left, err := filepath.Glob(filepath.Join(dir, "*"))
	var names []string
	for _, p := range left {
		names = append(names, filepath.Base(p))
	}
	slices.Sort(names)
	if want := []string{".kept-2", "b-2.log", "c-3" + recordEnding, "c-3.log", "other"}; err != nil || !slices.Equal(names, want) {
		t.Errorf("left %q (%v), want %q", names, err, want)
	}
}

// A record that is not one says why.
func TestBadRecords(t *testing.T) {
	const good = `{"schema":1,"name":"x","pid":2,"sockets":"/tmp/caisson-k1"}`
	if _, err := parseRecord(strings.NewReader(good + "\n")); err != nil {
		t.Error(err)
	}
	for text, want := range map[string]string{
		good + good:                            "something follows it",
		good + "x":                             "something follows it",
		good + strings.Repeat(" ", maxRecord):  "more than 65536 bytes",
		`{"schema":1,"pids":2}`:                `unknown field "pids"`,
		strings.Replace(good, ":2", ":1", 1):   "not a record",
		strings.Replace(good, ":2", ":-2", 1):  "not a record",
		strings.Replace(good, "-k1", "-x1", 1): "not a record",
	} {
		_, err := parseRecord(strings.NewReader(text))
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "%!") {
			t.Errorf("%.100q: %v, want %q", text, err, want)
		}
	}
}

func FuzzRecord(f *testing.F) {
	f.Add([]byte(`{"schema":1,"name":"x","pid":2,"sockets":"/tmp/caisson-k1"}`))
	f.Add([]byte(`{"schema":1,"name":"x","pid":2,"sockets":"/tmp/caisson-k/../../etc"}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		r, err := parseRecord(strings.NewReader(string(b)))
		if err != nil {
			return
		}
		if r.PID <= 1 && r.PID != 0 || filepath.Clean(r.Sockets) != r.Sockets || !strings.HasPrefix(filepath.Base(r.Sockets), keptPrefix) {
			t.Errorf("accepted %+v", r)
		}
	})
}
