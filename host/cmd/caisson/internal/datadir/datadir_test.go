package datadir

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestMain lets the test binary be the other process.
func TestMain(m *testing.M) {
	if dir := os.Getenv("DATADIR_HOLD"); dir != "" {
		d, err := Open(dir)
		if err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		fmt.Println("held")
		_, _ = os.Stdin.Read(make([]byte, 1)) // until killed
		_ = d.Close()
		os.Exit(1)
	}
	os.Exit(m.Run())
}

func TestLockAcrossProcesses(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "deep", "data")
	other := exec.Command(os.Args[0])
	other.Env = append(os.Environ(), "DATADIR_HOLD="+dir)
	if _, err := other.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	out, err := other.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := other.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = other.Process.Kill(); _ = other.Wait() })
	if line, err := bufio.NewReader(out).ReadString('\n'); err != nil || line != "held\n" {
		t.Fatalf("the other process said %q, %v", line, err)
	}

	var held *HeldError
	if _, err := Open(dir); !errors.As(err, &held) || held.PID != other.Process.Pid {
		t.Fatalf("Open of a held directory = %v, want a *HeldError with pid %d", err, other.Process.Pid)
	}
	if pid, is, err := Holder(dir); err != nil || !is || pid != other.Process.Pid {
		t.Errorf("Holder = %d, %v, %v; want %d, true", pid, is, err, other.Process.Pid)
	}

	// A killed holder leaves its pid in the file, but no lock.
	if err := other.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = other.Wait()
	if pid, is, err := Holder(dir); err != nil || is {
		t.Errorf("Holder after a kill = %d, %v, %v; want nobody", pid, is, err)
	}
	d, err := Open(dir)
	if err != nil {
		t.Fatalf("Open after a kill: %v", err)
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestLockWithinProcess(t *testing.T) {
	dir := t.TempDir()
	d, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	var held *HeldError
	if _, err := Open(dir); !errors.As(err, &held) || held.PID != os.Getpid() {
		t.Errorf("second Open = %v, want a *HeldError with our own pid", err)
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	if b, err := os.ReadFile(filepath.Join(dir, lockFile)); err != nil || len(b) != 0 {
		t.Errorf("lock file after Close = %q, %v; want it empty", b, err)
	}
}

func TestModes(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	d, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	if _, _, err := d.Keys(func(string) (string, bool) { return "", false }); err != nil {
		t.Fatal(err)
	}
	if _, err := d.DevKey(); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]os.FileMode{".": 0o700, lockFile: 0o600, SecretFile: 0o600, DevKeyFile: 0o600} {
		st, err := os.Stat(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		if st.Mode().Perm() != want {
			t.Errorf("%s has mode %v, want %v", name, st.Mode().Perm(), want)
		}
	}
}

func TestOpenRefuses(t *testing.T) {
	open := filepath.Join(t.TempDir(), "open")
	if err := os.Mkdir(open, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(open, 0o777); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	linked := t.TempDir()
	if err := os.Symlink(file, filepath.Join(linked, lockFile)); err != nil {
		t.Fatal(err)
	}
	for name, path := range map[string]string{"writable by others": open, "a file": file, "a lock that is a link": linked} {
		if d, err := Open(path); err == nil {
			_ = d.Close()
			t.Errorf("Open of %s succeeded", name)
		}
	}
}

func TestKeys(t *testing.T) {
	d, err := Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	env := map[string]string{}
	lookup := func(name string) (string, bool) { v, ok := env[name]; return v, ok }

	fromFile, source, err := d.Keys(lookup)
	if err != nil || source != filepath.Join(d.Path(), SecretFile) {
		t.Fatalf("Keys = %q, %v", source, err)
	}
	again, _, err := d.Keys(lookup)
	if err != nil {
		t.Fatal(err)
	}
	id, err := fromFile.NewSession(fromFile.Route("c", ""))
	if err != nil {
		t.Fatal(err)
	}
	if _, ok := again.Session(id); !ok {
		t.Error("the secret file gave other keys the second time")
	}

	// Rotation: the new secret goes in front, ids of the old one stay good.
	older, newer := strings.Repeat("o", 16), strings.Repeat("n", 16)
	env[SecretVariable] = older
	before, source, err := d.Keys(lookup)
	if err != nil || source != SecretVariable {
		t.Fatalf("Keys = %q, %v", source, err)
	}
	if id, err = before.NewSession(before.Route("c", "")); err != nil {
		t.Fatal(err)
	}
	env[SecretVariable] = newer + " , " + older
	after, _, err := d.Keys(lookup)
	if err != nil {
		t.Fatal(err)
	}
	if _, ok := after.Session(id); !ok {
		t.Error("an id of the older secret is not recognised after rotation")
	}
	if _, ok := fromFile.Session(id); ok {
		t.Error("the secret file's keys recognise an id of another secret")
	}

	env[SecretVariable] = "short"
	if _, _, err := d.Keys(lookup); err == nil || strings.Contains(err.Error(), "short,") {
		t.Errorf("a short secret gives %v, want an error", err)
	}
}

func TestDevKey(t *testing.T) {
	d, err := Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	key, err := d.DevKey()
	if err != nil || !strings.HasPrefix(key, devKeyPrefix) {
		t.Fatalf("DevKey = %q, %v", key, err)
	}
	if again, err := d.DevKey(); err != nil || again != key {
		t.Errorf("DevKey again = %q, %v; want the same key", again, err)
	}
	path := filepath.Join(d.Path(), DevKeyFile)
	for name, spoil := range map[string]func() error{
		"readable by others": func() error { return os.Chmod(path, 0o644) },
		"empty":              func() error { return os.WriteFile(path, nil, 0o600) },
		"a header injection": func() error { return os.WriteFile(path, []byte("caisson-dev-0123\r\nX: y"), 0o600) },
	} {
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(key), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := spoil(); err != nil {
			t.Fatal(err)
		}
		if got, err := d.DevKey(); err == nil {
			t.Errorf("a key file that is %s gives %q", name, got)
		}
	}
}
