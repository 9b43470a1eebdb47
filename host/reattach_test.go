package host

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/caisson-run/caisson/host/identity"
	"github.com/caisson-run/caisson/internal/procstat"
)

// doomedEnv makes this program a host that is going to be killed.
const doomedEnv = "CAISSON_TEST_DOOMED"

// doomed is what such a host is opened with.
type doomed struct {
	Plugins, Data string
	Reattach      bool
}

// doomedHost opens a host, says which process its plugin has, and waits.
func doomedHost(arg string) {
	var d doomed
	err := json.Unmarshal([]byte(arg), &d)
	var h *Host
	if err == nil {
		var keys *identity.Keys
		if keys, err = identity.NewKeys([]byte("a deployment secret of the tests")); err == nil {
			h, err = Open(context.Background(), Options{
				PluginDirs: []string{d.Plugins}, DataDir: d.Data, Keys: keys, Reattach: d.Reattach,
				Config: Config{Backends: []BackendConfig{{Plugin: "fake"}}},
			})
		}
	}
	if err != nil {
		fmt.Println("error:", err)
		os.Exit(1)
	}
	u, _ := h.backends.line("fake").program().sup.Now()
	t, err := h.Target(context.Background(), "fake")
	if err == nil {
		_, err = t.Backend.Create(context.Background(), createSpec("kept"))
	}
	fmt.Println(u.proc.PID(), err)
	time.Sleep(time.Hour)
}

// openDoomed starts such a host and kills it. It returns the number of its plugin.
func openDoomed(t *testing.T, f *fixture, reattach bool) (pid int) {
	t.Helper()
	arg, err := json.Marshal(doomed{f.plugins, f.data, reattach})
	if err != nil {
		t.Fatal(err)
	}
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(exe)
	cmd.Env = append(os.Environ(), doomedEnv+"="+string(arg))
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
	pid, numErr := strconv.Atoi(strings.TrimSuffix(strings.TrimSpace(line), " <nil>"))
	if err != nil || numErr != nil {
		t.Fatalf("the host says %q: %v", line, err)
	}
	t.Cleanup(func() { _ = syscall.Kill(-pid, syscall.SIGKILL) }) // of a test that failed
	return pid
}

// keptFixture has a keeper whose manifest lets it outlive its host.
func keptFixture(t *testing.T) *fixture {
	tmp, err := os.MkdirTemp("", "k") // short: sockets are below
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("TMPDIR", tmp)
	f := newFixture(t)
	f.install("fake", withCaps(fakeManifest)+"reattach: 1m\n", self(t), 0o755)
	f.instruct(script{Name: "fake", Version: "1.2.3", StateSchema: []string{"7"}, Capabilities: keeperCaps, Keeps: true})
	t.Cleanup(func() {
		left, err := filepath.Glob(filepath.Join(tmp, "caisson-*"))
		kept, _ := filepath.Glob(filepath.Join(f.data, "reattach", "*"))
		if err != nil || len(left)+len(kept) > 0 {
			t.Errorf("left: %q %q %v", left, kept, err)
		}
		os.RemoveAll(tmp)
	})
	return f
}

func lives(pid int) bool {
	f, err := procstat.Fields(pid)
	return err == nil && f[0] != "Z" // whoever inherits it may not wait for it
}

func (k keepers) pid() int {
	d, err := k.h.PluginDetail("fake")
	if err != nil || d.Process == nil {
		k.t.Fatal(err)
	}
	return d.Process.PID
}

// A plugin that asked for it is still there when its host was killed, and goes on
// with the next.
func TestReattach(t *testing.T) {
	f := keptFixture(t)
	pid := openDoomed(t, f, true)
	if !lives(pid) {
		t.Fatal("the plugin ended with its host")
	}
	o := f.options()
	o.Reattach = true
	h, err := Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	k := keepers{f, h}
	if k.pid() != pid {
		t.Errorf("process %d serves, want the adopted %d", k.pid(), pid)
	}
	k.expectServedBy("kept", "1.2.3")
	k.make("more")
	// It is supervised like any other.
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	k.eventually("another serves", func() bool { return k.pid() != pid && k.pid() != 0 && status(h, "fake").State == PluginReady })
	k.expectServedBy("more", "1.2.3")
	next := k.pid()
	if err := h.Close(context.Background()); err != nil {
		t.Fatal(err)
	}
	for _, p := range []int{pid, next} {
		if lives(p) {
			t.Errorf("process %d is left", p)
		}
	}
}

// One that does not fit any more, or that nobody asks for, is ended and makes room.
func TestReattachToAnotherVersion(t *testing.T) {
	for name, change := range map[string]func(f *fixture, o *Options){
		"another program": func(f *fixture, _ *Options) {
			f.install("fake", withCaps(fakeManifest)+"reattach: 1m\n", append(self(f.t), 0), 0o755)
		},
		"another environment": func(f *fixture, _ *Options) { f.t.Setenv("FAKE_VISIBLE", "yes") },
		"not in the manifest any more": func(f *fixture, _ *Options) {
			f.install("fake", withCaps(fakeManifest), self(f.t), 0o755)
		},
		"switched off": func(_ *fixture, o *Options) { o.Reattach = false },
	} {
		t.Run(name, func(t *testing.T) {
			f := keptFixture(t)
			pid := openDoomed(t, f, true)
			if err := os.Rename(filepath.Join(f.plugins, "fake", "fake"), filepath.Join(t.TempDir(), "old")); err != nil {
				t.Fatal(err)
			}
			f.install("fake", withCaps(fakeManifest)+"reattach: 1m\n", self(t), 0o755)
			o := f.options()
			o.Reattach = true
			change(f, &o)
			h, err := Open(t.Context(), o)
			if err != nil {
				t.Fatal(err)
			}
			k := keepers{f, h}
			if k.pid() == pid || lives(pid) {
				t.Errorf("process %d lives, and %d serves", pid, k.pid())
			}
			k.expectServedBy("kept", "1.2.3")
			if err := h.Close(context.Background()); err != nil {
				t.Error(err)
			}
		})
	}
}

// What a killed host left is gone once the next one has started.
func TestNextHostSweeps(t *testing.T) {
	f := keptFixture(t)
	pid := openDoomed(t, f, false)
	for end := time.Now().Add(time.Minute); lives(pid); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("the plugin outlived its host, which did not ask for it")
		}
	}
	left, err := filepath.Glob(filepath.Join(os.Getenv("TMPDIR"), socketPrefix+"*"))
	if err != nil || len(left) != 1 {
		t.Fatalf("the killed host left %q, %v; want its sockets", left, err)
	}
	h, err := Open(t.Context(), f.options())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(left[0]); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%s is still there: %v", left[0], err)
	}
	if err := h.Close(context.Background()); err != nil {
		t.Error(err)
	}
}
