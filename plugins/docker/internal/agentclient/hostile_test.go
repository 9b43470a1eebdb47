package agentclient_test

import (
	"errors"
	"io"
	"math"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/caisson-run/caisson/plugins/docker/internal/agentclient"
	"github.com/caisson-run/caisson/sdk/backend"
)

func data(name string) string { return backend.DataDir + "/" + name }

// TestHostileFiles: what a program leaves leads nobody anywhere, blocks nobody, and can be
// removed.
func TestHostileFiles(t *testing.T) {
	_, c := sandbox(t, options{})
	ctx := t.Context()
	res, h := run(t, c, script(`
mkfifo pipe; ln -s /etc/passwd out; ln -s / root; ln -s . loop; ln -s nowhere dangling; ln -s /proc/self/fd/0 fd
python3 -c "import socket; socket.socket(socket.AF_UNIX).bind('sock')"
mkdir closed; echo x > closed/in; chmod 0 closed
echo secret > private; chmod 0 private
echo write-only > wo; chmod 0200 wo
mkdir sticky; echo x > sticky/f; chmod 1777 sticky
mkdir noexec; echo x > noexec/f; chmod 0600 noexec
echo linked > a; ln a b
umask 077; mkdir mine; echo x > mine/f
printf x > "$(printf 'bad\377name')"
`))
	if res.ExitCode != 0 || res.CollectFailed {
		t.Fatalf("result %+v, stderr %q", res, h.stderr.String())
	}
	var changed []string
	for _, e := range res.Changed {
		changed = append(changed, strings.TrimPrefix(e.Path, data("")))
	}
	if want := []string{"a", "b", "closed/in", "mine/f", "noexec/f", "private", "sticky/f", "wo"}; !slices.Equal(changed, want) {
		t.Errorf("changed %q, want %q", changed, want)
	}
	if res.Skipped != 1 {
		t.Errorf("skipped %d, want the one whose name cannot be told", res.Skipped)
	}
	for _, name := range []string{"pipe", "out", "root", "root/etc/passwd", "loop/a", "dangling", "fd", "sock", "root/proc/self/environ"} {
		r, _, err := c.ReadFile(ctx, data(name))
		if err == nil {
			b, _ := io.ReadAll(r)
			_ = r.Close()
			t.Errorf("ReadFile %s yields %q", name, b)
		}
	}
	for _, name := range []string{"root/tmp/x", "loop/new", "out/x", "pipe/x"} {
		if _, err := c.WriteFile(ctx, data(name), backend.WriteOptions{}, strings.NewReader("x")); err == nil {
			t.Errorf("WriteFile %s succeeded", name)
		}
	}
	for _, name := range []string{"closed/in", "private", "mine/f", "wo"} {
		r, _, err := c.ReadFile(ctx, data(name))
		if err != nil {
			t.Errorf("ReadFile %s: %v", name, err)
			continue
		}
		_ = r.Close()
	}
	// A program of another user id can use all that, as a later one could.
	if out, err := c.Exec(ctx, backend.ExecRequest{Ref: ref(), Argv: []string{"cat closed/in private mine/f && echo y >> mine/f && touch sticky/g"}, Shell: true}); err != nil || out.ExitCode != 0 {
		t.Errorf("Exec: %+v, %v", out, err)
	}
	// The kernel's own refusal: files of user 0 stay what they are.
	for _, p := range []string{"/etc/passwd", "/etc/new", "/.caisson/private/uid", "/usr/bin/env"} {
		if _, err := c.WriteFile(ctx, p, backend.WriteOptions{}, strings.NewReader("x")); err == nil {
			t.Errorf("WriteFile %s succeeded", p)
		}
		if err := c.Remove(ctx, p); err == nil && p != "/etc/new" {
			t.Errorf("Remove %s succeeded", p)
		}
	}
	if _, _, err := c.ReadFile(ctx, "/.caisson/private/uid"); err == nil {
		t.Error("the agent's own files can be read")
	}
	for _, name := range []string{"closed", "sticky", "noexec", "mine", "root", "loop", "pipe"} {
		if err := c.Remove(ctx, data(name)); err != nil {
			t.Errorf("Remove %s: %v", name, err)
		}
	}
	if err := c.Remove(ctx, backend.DataDir); err != nil {
		t.Errorf("Remove everything: %v", err)
	}
	if list, err := c.ListDir(ctx, backend.DataDir); err != nil || len(list) > 0 {
		t.Errorf("after that there are %v, %v", list, err)
	}
	goesOn(t, c)
}

// TestDeepTree: trees deeper than any path can be removed and spoil nothing.
func TestDeepTree(t *testing.T) {
	_, c := sandbox(t, options{})
	res, h := run(t, c, script(`exec python3 -c "
import os
for i in range(3000):
    os.mkdir('d' * 50); os.chdir('d' * 50)
open('f', 'w').close()
"`))
	if res.ExitCode != 0 {
		t.Fatalf("result %+v, stderr %q", res, h.stderr.String())
	}
	if _, err := c.Walk(t.Context(), backend.WalkRequest{}); err != nil {
		t.Errorf("Walk: %v", err)
	}
	goesOn(t, c)
	if err := c.Remove(t.Context(), data(strings.Repeat("d", 50))); err != nil {
		t.Errorf("Remove: %v", err)
	}
	if list, err := c.ListDir(t.Context(), backend.DataDir); err != nil || len(list) > 0 {
		t.Errorf("after that there are %d, %v", len(list), err)
	}
}

// TestManyFiles: more files than anybody looks at are nobody's end.
func TestManyFiles(t *testing.T) {
	_, c := sandbox(t, options{memory: 1 << 30, tmpfs: "rw,size=64m,nr_inodes=0,mode=0775"})
	ctx := t.Context()
	started := c.Agent().Started
	res, h := run(t, c, script(`exec python3 -c "
import os
for i in range(110000): os.close(os.open('f%d' % i, os.O_CREAT))
"`))
	if res.Stop != backend.StopExit || res.ExitCode == 0 && !res.CollectFailed {
		t.Errorf("stop %q, status %d, stderr %q", res.Stop, res.ExitCode, h.stderr.String())
	}
	goesOn(t, c)
	if _, err := c.ListDir(ctx, backend.DataDir); res.ExitCode == 0 && backend.KindOf(err) != backend.KindCapacity {
		t.Errorf("ListDir: %v", err)
	}
	if w, err := c.Walk(ctx, backend.WalkRequest{}); err != nil || !w.Truncated {
		t.Errorf("Walk: truncated %v, %v", w.Truncated, err)
	}
	if err := c.Remove(ctx, backend.DataDir); err != nil {
		t.Error(err)
	}
	if res, _ := run(t, c, script("echo x > f")); len(res.Changed) != 1 || res.CollectFailed {
		t.Errorf("after that %d changed, failed %v", len(res.Changed), res.CollectFailed)
	}
	if got := c.Agent().Started; !got.Equal(started) {
		t.Error("the agent was started again")
	}
}

// TestRaces: a program that swaps files for links while they are written and read gains
// nothing, and no write goes astray.
func TestRaces(t *testing.T) {
	b, c := sandbox(t, options{})
	ctx := t.Context()
	spec := script(`exec python3 -c "
import os, time
end = time.time() + 3
os.makedirs('real', exist_ok=True)
while time.time() < end:
    for what in (lambda: os.symlink('/etc', 'd'), lambda: os.mkdir('d'), lambda: os.symlink('/etc/passwd', 'd/passwd'),
                 lambda: os.rename('d', 'old'), lambda: os.unlink('old'), lambda: os.rmdir('old'), lambda: os.symlink('/.caisson/private/uid', 'leaf'), lambda: os.unlink('leaf')):
        try: what()
        except OSError: pass
"`)
	before, _ := b.exec(t, "0:0", "sh", "-c", "cat /etc/passwd; ls -la /etc /.caisson/private | grep -v sock")
	if err := c.StartRun(ctx, backend.DetachedStart{RunSpec: spec}, &heard{}); err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	end := time.Now().Add(2500 * time.Millisecond)
	for _, name := range []string{"d/passwd", "leaf", "d/new"} {
		wg.Go(func() {
			for time.Now().Before(end) {
				_, _ = c.WriteFile(ctx, data(name), backend.WriteOptions{}, strings.NewReader("written"))
				if r, _, err := c.ReadFile(ctx, data(name)); err == nil {
					text, err := io.ReadAll(r)
					_ = r.Close()
					if err == nil && string(text) != "written" {
						t.Errorf("%s holds %q", name, text)
					}
				}
				_ = c.Remove(ctx, data("d"))
				_ = c.MakeDir(ctx, data("d/x"))
			}
		})
	}
	wg.Wait()
	if err := c.KillRun(ctx, spec.RunID); err != nil {
		t.Error(err)
	}
	if after, _ := b.exec(t, "0:0", "sh", "-c", "cat /etc/passwd; ls -la /etc /.caisson/private | grep -v sock"); after != before {
		t.Errorf("before:\n%s\nafter:\n%s", before, after)
	}
	goesOn(t, c)
}

// TestProgramsAreKeptOut: programs cannot speak to the agent, see what it keeps, nor touch
// its processes.
func TestProgramsAreKeptOut(t *testing.T) {
	b, c := sandbox(t, options{})
	res, h := run(t, c, script(`
ls /.caisson/private && echo listed private
cat /.caisson/private/uid && echo read uid
ls /.caisson/run && echo listed run
touch /.caisson/run/x && echo wrote run
rm -rf /.caisson/agent-* 2>/dev/null; ls /.caisson/agent-* >/dev/null || echo removed the agent
`+b.agentPath()+` relay </dev/null && echo relayed
python3 -c "
import socket
s = socket.socket(socket.AF_UNIX); s.connect('/.caisson/private/agent.sock'); print('connected')"
for p in /proc/[0-9]*; do p=${p#/proc/}; [ $p = $$ ] && continue
  [ "$(awk '/^Uid/{print $2}' /proc/$p/status)" = "$(id -u)" ] && continue
  kill -0 $p 2>/dev/null && echo can signal $p
  cat /proc/$p/mem >/dev/null 2>&1 && echo can read $p
  ls /proc/$p/fd >/dev/null 2>&1 && echo can list $p
done
true`))
	if res.ExitCode != 0 || h.stdout.Len() > 0 {
		t.Errorf("result %+v, stdout %q, stderr %q", res, h.stdout.String(), h.stderr.String())
	}
}

func (b *box) agentPath() string { return "/.caisson/agent-" + b.build[:16] }

// TestScratchIsOneRuns: what a program leaves outside the working directory is gone.
func TestScratchIsOneRuns(t *testing.T) {
	_, c := sandbox(t, options{})
	res, h := run(t, c, script(`
echo x > /tmp/left; mkdir -p /tmp/dir/deep /dev/shm/dir; echo x > /tmp/dir/deep/f; chmod 0 /tmp/dir/deep /tmp/dir; echo x > /dev/shm/f
python3 -c "
import ctypes
libc = ctypes.CDLL(None, use_errno=True)
for f, args in ((libc.shmget, (7, 4096, 0o1666)), (libc.semget, (7, 1, 0o1666)), (libc.msgget, (7, 0o1666))):
    if f(*args) < 0: print('ipc', ctypes.get_errno())
"
ls /tmp /dev/shm; wc -l < /proc/sysvipc/shm`))
	if res.ExitCode != 0 || h.stdout.String() != "/dev/shm:\ndir\nf\n\n/tmp:\ndir\nleft\n2\n" {
		t.Errorf("result %+v, stdout %q, stderr %q", res, h.stdout.String(), h.stderr.String())
	}
	_, h = run(t, c, script(`ls -A /tmp /dev/shm; cat /proc/sysvipc/shm /proc/sysvipc/sem /proc/sysvipc/msg | wc -l`))
	if h.stdout.String() != "/dev/shm:\n\n/tmp:\n3\n" {
		t.Errorf("the next run sees %q", h.stdout.String())
	}
}

// TestSharedFiles: what one run made, the next may change as its owner; what a run beside
// it made, it may change as a member of its group.
func TestSharedFiles(t *testing.T) {
	_, c := sandbox(t, options{})
	run(t, c, script(`umask 077; echo one > f; mkdir d; echo two > d/g; printf '#!/bin/sh\necho ran' > s`))
	res, h := run(t, c, script(`chmod +x s && ./s && touch -d @1000000000 f && chmod 600 f && echo more >> d/g && mv d/g d/h && cat f d/h`))
	if res.ExitCode != 0 || h.stdout.String() != "ran\none\ntwo\nmore\n" {
		t.Errorf("result %+v, stdout %q, stderr %q", res, h.stdout.String(), h.stderr.String())
	}
	spec := script(`umask 077; echo theirs > t; mkdir td; echo x > td/f; : > made; sleep 1000`)
	if err := c.StartRun(t.Context(), backend.DetachedStart{RunSpec: spec}, &heard{}); err != nil {
		t.Fatal(err)
	}
	if !eventually(func() bool { _, err := c.Stat(t.Context(), data("made")); return err == nil }) { // td is its own
		t.Fatal("it does not write its files")
	}
	if err := c.KillRun(t.Context(), spec.RunID); err != nil {
		t.Fatal(err)
	}
	res, h = run(t, c, script(`cat t td/f && echo more >> t && rm td/f && rmdir td && cat t`))
	if res.ExitCode != 0 || h.stdout.String() != "theirs\nx\ntheirs\nmore\n" {
		t.Errorf("result %+v, stdout %q, stderr %q", res, h.stdout.String(), h.stderr.String())
	}
}

// TestManyRuns: a hundred programs at a time, and nothing of them stays.
func TestManyRuns(t *testing.T) {
	_, c := sandbox(t, options{pids: 512})
	ctx := t.Context()
	run(t, c, script("true"))
	quiet := func(goroutines, descriptors int) (last agentclient.Status) {
		t.Helper()
		eventually(func() bool { // launchers are made again, and connections end, in the background
			var err error
			if last, err = c.Status(ctx); err != nil {
				t.Fatal(err)
			}
			return last.Children == 2 && last.Busy == 0 && last.Goroutines <= goroutines && last.Descriptors <= descriptors
		})
		return last
	}
	before := quiet(math.MaxInt, math.MaxInt)
	for range 3 {
		var wg sync.WaitGroup
		for i := range 100 {
			wg.Go(func() {
				if i%3 == 0 {
					spec := script("echo $((6*7))")
					h := &heard{}
					if _, err := c.Run(ctx, spec, h); err != nil && backend.KindOf(err) != backend.KindCapacity || err == nil && h.stdout.String() != "42\n" {
						t.Errorf("run %d: %v, stdout %q, stderr %q", i, err, h.stdout.String(), h.stderr.String())
					}
					return
				}
				out, err := c.Exec(ctx, backend.ExecRequest{Ref: ref(), Argv: []string{"sh", "-c", "(sleep 100 &) ; echo $((6*7))"}})
				if err != nil || string(out.Stdout) != "42\n" {
					t.Errorf("command %d: %+v, %v", i, out, err)
				}
			})
		}
		wg.Wait()
	}
	after := quiet(before.Goroutines, before.Descriptors)
	t.Logf("before %+v, after %+v", before, after)
	if after.Children != 2 || after.Busy != 0 || after.Goroutines > before.Goroutines || after.Descriptors > before.Descriptors {
		t.Error("something stays")
	}
}

// TestGarbage: what is no plugin is hung up on, and the agent goes on.
func TestGarbage(t *testing.T) {
	b, c := sandbox(t, options{})
	for _, say := range []string{"GET / HTTP/1.1\r\n\r\n", "", "\xCAisson/A\x00\x01\x00" + strings.Repeat("\x00", 32) + "\xff\xff\xff\xff\xff\xff\xff\xff\xff", "\xCAisson/A\x00\x01\x00" + strings.Repeat("\x00", 32) + "\x01\x00\x00\x00\x01\x00\x3f"} {
		conn, err := b.dial(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.CopyN(io.Discard, conn, 43); err != nil {
			t.Errorf("no preamble: %v", err)
		}
		if _, err := io.WriteString(conn, say); err != nil {
			t.Error(err)
		}
		if h := conn.(*hijacked); say == "" || strings.HasSuffix(say, "\x3f") {
			_ = h.Close() // half a frame, or nothing
			continue
		}
		if _, err := io.Copy(io.Discard, conn); err != nil && !errors.Is(err, io.ErrClosedPipe) {
			t.Logf("hung up with %v", err)
		}
		_ = conn.Close()
	}
	goesOn(t, c)
}
