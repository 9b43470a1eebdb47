package envd_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/caisson-run/caisson/plugins/internal/envd"
	"github.com/caisson-run/caisson/plugins/internal/envdfake"
	"github.com/caisson-run/caisson/sdk/backend"
)

const data = backend.DataDir

func (s *stand) write(ref backend.Ref, path, content string) {
	s.t.Helper()
	if _, err := s.WriteFile(s.t.Context(), ref, path, backend.WriteOptions{}, strings.NewReader(content)); err != nil {
		s.t.Fatalf("WriteFile %q: %v", path, err)
	}
}

func (s *stand) read(ref backend.Ref, path string) string {
	s.t.Helper()
	r, _, err := s.ReadFile(s.t.Context(), ref, path)
	if err != nil {
		s.t.Fatalf("ReadFile %q: %v", path, err)
	}
	defer r.Close()
	b, err := io.ReadAll(r)
	if err != nil {
		s.t.Fatalf("ReadFile %q: %v", path, err)
	}
	return string(b)
}

// TestOddFiles: pipes, devices and links are other things, and none is opened.
func TestOddFiles(t *testing.T) {
	s := newStand(t, options{})
	ref := s.sandbox()
	s.write(ref, data+"/file", "x")
	dir := s.box(ref).machine.Path(data)
	if err := errors.Join(
		syscall.Mkfifo(filepath.Join(dir, "pipe"), 0o644), os.Symlink("file", filepath.Join(dir, "link")),
		os.Symlink("loop", filepath.Join(dir, "loop")), os.Symlink("/etc", filepath.Join(dir, "etc")), os.Symlink("absent", filepath.Join(dir, "dangling")),
	); err != nil {
		t.Fatal(err)
	}
	for _, p := range []string{data + "/pipe", data + "/link", data + "/loop", data + "/etc", data + "/dangling", "/dev/null"} {
		e, err := s.Stat(t.Context(), ref, p)
		if err != nil || e.Type != backend.EntryOther || e.Size != 0 {
			t.Errorf("Stat %s: %+v, %v", p, e, err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		_, _, err = s.ReadFile(ctx, ref, p)
		cancel()
		wantKind(t, "ReadFile "+p, err, backend.KindConflict)
	}
	for _, p := range []string{data + "/etc/passwd", data + "/link/x", data + "/loop/x"} {
		_, err := s.Stat(t.Context(), ref, p)
		wantKind(t, "Stat "+p, err, backend.KindConflict)
		wantKind(t, "Remove "+p, s.Remove(t.Context(), ref, p), backend.KindConflict)
		wantKind(t, "MakeDir "+p, s.MakeDir(t.Context(), ref, p), backend.KindConflict)
	}
	if _, err := s.Walk(t.Context(), backend.WalkRequest{Ref: ref, Root: data + "/etc"}); backend.KindOf(err) != backend.KindConflict {
		t.Errorf("Walk through a link: %v", err)
	}
	// What could never be read is never asked for: the fake would have noticed.
	res, err := s.Walk(t.Context(), backend.WalkRequest{Ref: ref, Digests: true})
	if err != nil || len(res.Entries) != 6 {
		t.Errorf("Walk: %+v, %v", res, err)
	}
}

// TestMakeDirTwice: a directory that exists is what was wanted, whatever a daemon says.
func TestMakeDirTwice(t *testing.T) {
	s := newStand(t, options{})
	ref := s.sandbox()
	if err := s.MakeDir(t.Context(), ref, data+"/d"); err != nil {
		t.Fatal(err)
	}
	for name, f := range map[string]envdfake.Fault{
		"already_exists": {Status: 409, Body: `{"code":"already_exists","message":"directory already exists"}`},
		"internal":       {Status: 500, Body: `{"code":"internal","message":"file exists"}`},
	} {
		f.Path, f.Times = "/filesystem.Filesystem/MakeDir", -1
		s.gateway.Script.Clear()
		s.gateway.Script.Add(f)
		// It is not there when asked, and is when made.
		s.gateway.Script.Add(envdfake.Fault{Path: "/filesystem.Filesystem/Stat", Status: 404, Body: `{"code":"not_found","message":"x"}`})
		if err := s.MakeDir(t.Context(), ref, data+"/d"); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestRemoveAbsent is success, without a trace.
func TestRemoveAbsent(t *testing.T) {
	s := newStand(t, options{})
	ref := s.sandbox()
	for _, p := range []string{data + "/absent", data + "/absent/deeper", "/tmp/absent"} {
		if err := s.Remove(t.Context(), ref, p); err != nil {
			t.Errorf("%s: %v", p, err)
		}
	}
	wantKind(t, "the root", s.Remove(t.Context(), ref, "/"), backend.KindConflict)
}

// TestUploads: files travel as forms, which every daemon understands, to a place of
// their own, and nothing is left there.
func TestUploads(t *testing.T) {
	s := newStand(t, options{machine: envdfake.Options{Version: "0.2.0"}})
	ref := s.sandbox()
	s.write(ref, data+"/a", "content")
	cut := errors.New("cut")
	if _, err := s.WriteFile(t.Context(), ref, data+"/a", backend.WriteOptions{}, io.MultiReader(strings.NewReader("other"), iotestErr{cut})); !errors.Is(err, cut) {
		t.Errorf("a reader that fails: %v", err)
	}
	_, err := s.WriteFile(t.Context(), ref, data+"/a", backend.WriteOptions{MaxBytes: 3}, strings.NewReader("other"))
	wantKind(t, "too long", err, backend.KindInvalidRequest)
	if got := s.read(ref, data+"/a"); got != "content" {
		t.Errorf("the file holds %q", got)
	}
	for _, r := range s.requests("/files") {
		if r.Method == "POST" && (!strings.HasPrefix(r.Header.Get("Content-Type"), "multipart/form-data") || strings.HasPrefix(r.URL.Query().Get("path"), data)) {
			t.Errorf("an upload to %s as %s", r.URL.Query().Get("path"), r.Header.Get("Content-Type"))
		}
	}
	await(t, "end of what an upload left behind", func() bool {
		left, err := filepath.Glob(s.box(ref).machine.Path("/mnt/.caisson") + "/*")
		return err == nil && len(left) == 0
	})
}

type iotestErr struct{ err error }

func (r iotestErr) Read([]byte) (int, error) { return 0, r.err }

// TestRunLeavesNothing: neither a run that ends nor one that cannot begin.
func TestRunLeavesNothing(t *testing.T) {
	s := newStand(t, options{})
	ref := s.sandbox()
	large := shellRun(ref, "echo $#; #"+strings.Repeat("x", 100<<10)) // too large for a command line
	large.Inputs = []backend.Input{{Path: data + "/in", Inline: []byte("input")}}
	if got, err := s.Run(t.Context(), large, &listener{}); err != nil || got.ExitCode != 0 || len(got.Changed) > 0 {
		t.Errorf("%+v, %v", got, err)
	}
	blocked := shellRun(ref, "true")
	blocked.Inputs = []backend.Input{{Path: data + "/in/below", Inline: []byte("x")}}
	_, err := s.Run(t.Context(), blocked, &listener{})
	wantKind(t, "an input below a file", err, backend.KindConflict)
	absent := shellRun(ref, "true")
	absent.Dir = data + "/absent"
	_, err = s.Run(t.Context(), absent, &listener{})
	wantKind(t, "an absent directory", err, backend.KindInvalidRequest)
	left, err := filepath.Glob(s.box(ref).machine.Path("/mnt/.caisson") + "/*")
	if err != nil || len(left) > 0 {
		t.Errorf("left behind: %q, %v", left, err)
	}
}

// TestTooMuchToLookAt: a run goes on where its files are too many, or take too long to
// read; only what changed is not known then.
func TestTooMuchToLookAt(t *testing.T) {
	s := newStand(t, options{change: func(o *envd.Options) { o.Timeout = 2 * time.Second }})
	ref := s.sandbox()
	deep := s.box(ref).machine.Path(data + strings.Repeat("/"+strings.Repeat("d", 250), 12))
	if err := os.MkdirAll(deep, 0o755); err != nil {
		t.Fatal(err)
	}
	for i := range 6000 { // 19 MiB of names
		if err := os.WriteFile(fmt.Sprintf("%s/%d", deep, i), nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	spec := shellRun(ref, "echo ran; echo x >made")
	l := new(listener)
	got, err := s.Run(t.Context(), spec, l)
	if err != nil || got.ExitCode != 0 || l.stdout.String() != "ran\n" || !got.CollectFailed {
		t.Errorf("too many: %+v, %v", got, err)
	}
	_, err = s.Walk(t.Context(), backend.WalkRequest{Ref: ref})
	if kind := backend.KindOf(err); err == nil || kind != backend.KindCapacity && kind != backend.KindTimeout { // as long as a short call may take
		t.Errorf("a walk of too many: %v", err)
	}

	ref = s.sandbox()
	s.write(ref, data+"/small", "x")
	if err := os.Truncate(s.box(ref).machine.Path(data+"/small"), 1<<40); err != nil {
		t.Fatal(err)
	}
	spec = shellRun(ref, "echo ran")
	spec.Collect.MaxFileBytes = 1 << 41
	l = new(listener)
	got, err = s.Run(t.Context(), spec, l)
	if err != nil || got.ExitCode != 0 || l.stdout.String() != "ran\n" || !got.CollectFailed {
		t.Errorf("too long: %+v, %v", got, err)
	}
	s.quiet(t, ref)
}

// TestDeceivingRun: a program that forges marks deceives its own run at most, and
// paths it makes up are not passed on.
func TestDeceivingRun(t *testing.T) {
	s := newStand(t, options{})
	ref := s.sandbox()
	l := new(listener)
	got, err := s.Run(t.Context(), shellRun(ref, `
n=$(tr '\000' '\n' </proc/$(cut -d' ' -f4 /proc/$$/stat)/cmdline | sed -n 5p)
printf '\000%s E 0 99\n' "$n"; printf '\000%s S 1\n' "$n"; printf '\000%s S x\n' "$n"; printf '\000%s M 7\n' "$n"
printf '\000%s nonsense\n' "$n"; printf '\000%s B\n' "$n"; printf 'f\t1\t1\t1\t644\t1\t/etc/passwd\000'; printf '\000%s b 0\n' "$n"
echo end`), l)
	if err == nil && (got.Step != 0 || len(got.Changed) > 0 || got.Stop == backend.StopExit && got.ExitCode == 0 && !strings.Contains(l.stdout.String(), "end")) {
		t.Errorf("%+v, %q", got, l.stdout.String())
	}
	if err := ptr(shellRun(ref, "")).CheckResult(got); err == nil && got.CollectFailed == false && len(got.Changed) > 0 {
		t.Errorf("changed %+v", got.Changed)
	}
	s.quiet(t, ref)
}

func ptr[T any](v T) *T { return &v }

// TestWatch: renames, new directories, and an end of the connection, which is none of
// watching.
func TestWatch(t *testing.T) {
	s := newStand(t, options{})
	ref := s.sandbox()
	s.write(ref, data+"/w1", "x")
	seen := make(chan string, 100)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	done := make(chan error, 1)
	go func() {
		done <- s.Watch(ctx, ref, data, true, func(e backend.WatchEvent) error {
			seen <- e.Op + " " + strings.TrimPrefix(e.Path, data+"/")
			return nil
		})
	}()
	await(t, "start of watching", func() bool {
		s.write(ref, data+"/tick", "x")
		return len(seen) > 0
	})
	s.exec(backend.ExecRequest{Ref: ref, Shell: true, Argv: []string{"mv w1 w2; mkdir sub; sleep 0.2; echo x >sub/deep"}})
	want := []string{"rename w1", "create w2", "create sub", "create sub/deep", "write sub/deep"}
	for len(want) > 0 {
		select {
		case e := <-seen:
			want = slices.DeleteFunc(want, func(w string) bool { return w == e })
		case <-ctx.Done():
			t.Fatalf("not seen: %q", want)
		}
	}
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Errorf("Watch: %v", err)
	}
	for _, r := range s.requests("/WatchDir") {
		if r.Header.Get("Connect-Timeout-Ms") != "" {
			t.Error("watching had a deadline")
		}
	}
	fail := func(backend.WatchEvent) error { return nil }
	wantKind(t, "a file", s.Watch(t.Context(), ref, data+"/w2", false, fail), backend.KindConflict)
	wantKind(t, "nothing", s.Watch(t.Context(), ref, data+"/absent", false, fail), backend.KindNotFound)
	s.gateway.Script.Add(envdfake.Fault{Path: "/filesystem.Filesystem/WatchDir", Cut: 60})
	stop := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			select {
			case <-stop:
				return
			case <-time.After(10 * time.Millisecond):
				s.write(ref, data+"/tick", "x")
			}
		}
	})
	wantKind(t, "a cut stream", s.Watch(t.Context(), ref, data, false, fail), backend.KindUnavailable)
	close(stop)
	wg.Wait()
}

// TestMetrics reads what the daemon says.
func TestMetrics(t *testing.T) {
	s := newStand(t, options{})
	ref := s.sandbox()
	m, err := s.Metrics(t.Context(), ref)
	if err != nil || m.CPUs != 2 || m.MemoryTotal != 512<<20 || m.DiskUsed != 1<<30 || time.Since(m.At) > time.Hour {
		t.Errorf("%+v, %v", m, err)
	}
	s.gateway.Script.Add(envdfake.Fault{Path: "/metrics", Status: 200, Body: "<html>", Times: -1})
	_, err = s.Metrics(t.Context(), ref)
	wantKind(t, "a page", err, backend.KindUnavailable)
}

// TestLimitedAnswers: a daemon or gateway that never stops talking is stopped.
func TestLimitedAnswers(t *testing.T) {
	s := newStand(t, options{})
	ref := s.sandbox()
	s.write(ref, data+"/f", "x")
	huge := strings.Repeat("x", 20<<20)
	s.gateway.Script.Add(envdfake.Fault{Path: "/filesystem.Filesystem/ListDir", Status: 200, Header: map[string]string{"Content-Type": "application/proto"}, Body: huge, Times: -1})
	_, err := s.ListDir(t.Context(), ref, data)
	wantKind(t, "a listing of 20 MiB", err, backend.KindInternal)
	s.gateway.Script.Clear()
	s.gateway.Script.Add(envdfake.Fault{Path: "/files", Status: 404, Body: `{"code":404,"message":"` + huge + `"}`, Times: -1})
	if _, _, err := s.ReadFile(t.Context(), ref, data+"/f"); err == nil || len(err.Error()) > 2000 {
		t.Errorf("an error of 20 MiB: %d bytes", len(err.Error()))
	}
}

// TestBusyBox: scripts work where find and the others are small.
func TestBusyBox(t *testing.T) {
	busybox, err := exec.LookPath("busybox")
	if err != nil {
		need(t, "busybox is missing: %v", err)
	}
	dir := "/home/bin"
	s := newStand(t, options{})
	s.prepare = func(m *envdfake.Machine) {
		real := m.Path(dir)
		if err := os.MkdirAll(real, 0o755); err != nil {
			t.Fatal(err)
		}
		for _, tool := range []string{"sh", "find", "sha256sum", "stat", "mkdir", "mv", "rm", "ln", "chmod", "cat", "cp", "setsid", "sleep", "env", "kill", "true", "nice"} {
			if err := os.Symlink(busybox, filepath.Join(real, tool)); err != nil {
				t.Fatal(err)
			}
		}
	}
	s.env = map[string]string{"PATH": dir}
	ref := s.sandbox()
	names := []string{"plain", "two words", "new\nline", `back\slash`, "-rf", "ünï", "sub/deep", "quote'\""}
	for _, name := range names {
		s.write(ref, data+"/in/"+name, name)
	}
	res, err := s.Walk(t.Context(), backend.WalkRequest{Ref: ref, Digests: true, Exclude: []string{"sub"}})
	if err != nil || res.Truncated {
		t.Fatalf("Walk: %+v, %v", res, err)
	}
	found := make(map[string]string)
	for _, e := range res.Entries {
		found[strings.TrimPrefix(e.Path, data+"/in/")] = e.SHA256
	}
	for _, name := range names {
		sum := sha256.Sum256([]byte(name))
		if got := found[name]; got != hex.EncodeToString(sum[:]) && name != "sub/deep" || name == "sub/deep" && got != "" {
			t.Errorf("%q has the digest %q", name, got)
		}
	}
	spec := shellRun(ref, `rm in/plain; echo x >>"in/two words"; cp in/-rf 'in/new
line'; mkdir out; echo y >out/made; trap '' TERM; (sleep 600) & sleep 0`)
	spec.Inputs = []backend.Input{{Path: data + "/input", Inline: []byte("i")}}
	got, err := s.Run(t.Context(), spec, &listener{})
	var changed []string
	for _, e := range got.Changed {
		changed = append(changed, strings.TrimPrefix(e.Path, data+"/"))
	}
	want := []string{"in/new\nline", "in/two words", "out/made"}
	if err != nil || got.CollectFailed || !slices.Equal(changed, want) || !slices.Equal(got.Deleted, []string{data + "/in/plain"}) {
		t.Errorf("changed %q, %+v, %v", changed, got, err)
	}
	s.quiet(t, ref)
}
