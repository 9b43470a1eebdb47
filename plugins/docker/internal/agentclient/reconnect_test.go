package agentclient_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/caisson-run/caisson/plugins/docker/internal/agentclient"
	"github.com/caisson-run/caisson/sdk/backend"
)

// cutter is a Dialer whose connections a test can cut.
type cutter struct {
	dial agentclient.Dialer

	mu    sync.Mutex
	conns []io.Closer
	dials int
	fail  int // so many dials
}

func (k *cutter) Dial(ctx context.Context) (io.ReadWriteCloser, error) {
	k.mu.Lock()
	refuse := k.fail > 0
	k.fail--
	k.mu.Unlock()
	if refuse {
		return nil, errors.New("the engine is being restarted")
	}
	rw, err := k.dial(ctx)
	if err != nil {
		return nil, err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.conns = append(k.conns, rw)
	k.dials++
	return rw, nil
}

func (k *cutter) cut() {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, c := range k.conns {
		_ = c.Close()
	}
	k.conns = nil
}

// TestRelayCut: a run goes on without its connection, and nothing of it is lost.
func TestRelayCut(t *testing.T) {
	b := newBox(t, options{})
	k := &cutter{dial: b.dial}
	c := b.openWith(t, k.Dial)
	cuts := 0
	h := &heard{}
	h.onOut = func(all string) error {
		if n := strings.Count(all, "\n"); n == 3 && cuts == 0 || n == 12 && cuts == 1 {
			cuts++
			k.mu.Lock()
			k.fail = 3 * (cuts - 1)
			k.mu.Unlock()
			go k.cut()
		}
		return nil
	}
	spec := script(`for i in $(seq 20); do echo line $i; echo err $i >&2; sleep 0.05; done; echo x > made; exit 7`)
	res, err := c.Run(t.Context(), spec, h)
	if err != nil {
		t.Fatal(err)
	}
	var want, wantErr strings.Builder
	for i := range 20 {
		fmt.Fprintf(&want, "line %d\n", i+1)
		fmt.Fprintf(&wantErr, "err %d\n", i+1)
	}
	if res.Stop != backend.StopExit || res.ExitCode != 7 || h.stdout.String() != want.String() || h.stderr.String() != wantErr.String() || len(res.Changed) != 1 || h.began != 1 {
		t.Errorf("after %d cuts: %+v, stdout %q, stderr %q", cuts, res, h.stdout.String(), h.stderr.String())
	}
	if cuts != 2 || k.dials != 3 {
		t.Errorf("%d cuts, %d dials", cuts, k.dials)
	}
	// What waits for its answer fails, and the next request dials.
	k.cut()
	goesOn(t, c)
}

// TestNobodyRejoins: a foreground run ends when its caller does not come back.
func TestNobodyRejoins(t *testing.T) {
	b := newBox(t, options{})
	k := &cutter{dial: b.dial}
	c, err := agentclient.Open(t.Context(), k.Dial, agentclient.Options{Rejoin: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	begun := make(chan struct{})
	h := &heard{onBegin: func() { close(begun) }}
	done := make(chan error, 1)
	var res backend.RunResult
	go func() {
		var err error
		res, err = c.Run(t.Context(), script("echo begun; sleep 1000"), h)
		done <- err
	}()
	<-begun
	if err := c.Close(); err != nil {
		t.Error(err)
	}
	if err := <-done; err == nil && res.Stop != backend.StopLost || err != nil && !errors.Is(err, agentclient.ErrLost) {
		t.Errorf("Run = %+v, %v", res, err)
	}
	again := b.open(t)
	goesOn(t, again) // it waits for its turn: until the other has ended
	if left := b.left(t); left != "" {
		t.Errorf("left:\n%s", left)
	}
}

// TestMuteAgent: dialling again takes no longer than an agent may take to answer, whoever
// waits for it and however long.
func TestMuteAgent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := &cutter{dial: liar(t, nil)}
		c, err := agentclient.Open(t.Context(), k.Dial, agentclient.Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		k.dial = func(context.Context) (io.ReadWriteCloser, error) {
			ours, theirs := net.Pipe()
			t.Cleanup(func() { _ = theirs.Close() })
			return ours, nil
		}
		k.cut()
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		if _, err := c.Status(ctx); backend.KindOf(err) != backend.KindUnavailable || errors.Is(err, context.DeadlineExceeded) || ctx.Err() != nil {
			t.Errorf("Status = %v", err)
		}
		select {
		case <-c.Done():
		default:
			t.Error("the client is not done with it")
		}
	})
}

// TestAgentKilled: a run whose agent dies is lost, and the next agent ends what is left
// of it and serves the same files.
func TestAgentKilled(t *testing.T) {
	b, c := sandbox(t, options{})
	if _, err := c.WriteFile(t.Context(), backend.DataDir+"/kept", backend.WriteOptions{}, strings.NewReader("kept")); err != nil {
		t.Fatal(err)
	}
	begun := make(chan struct{})
	h := &heard{onBegin: func() { close(begun) }}
	done := make(chan backend.RunResult, 1)
	go func() {
		res, err := c.Run(t.Context(), script("echo begun; setsid sleep 1000 & sleep 1000"), h)
		if err != nil {
			t.Errorf("Run: %v", err)
		}
		done <- res
	}()
	<-begun
	uid := c.Agent().UID
	b.exec(t, "0:0", "sh", "-c", `for p in /proc/[0-9]*; do [ $p = /proc/$$ ] && continue; case "$(tr '\0' ' ' < $p/cmdline)" in "caisson-agent serve "*) kill -9 ${p#/proc/};; esac; done`)
	if res := <-done; res.Stop != backend.StopLost {
		t.Errorf("the run of a killed agent: %+v", res)
	}
	goesOn(t, c)
	if left := b.left(t); left != "" {
		t.Errorf("left:\n%s", left)
	}
	if got := c.Agent().UID; got != uid {
		t.Errorf("the session's user is %d, and was %d", got, uid)
	}
	if _, h := run(t, c, script("cat kept; echo more >> kept; touch -d @1 kept")); h.stdout.String() != "kept" || h.stderr.Len() > 0 {
		t.Errorf("stdout %q, stderr %q", h.stdout.String(), h.stderr.String())
	}
}

// TestReplaced: an agent of another build takes over when the other has nothing to do, and
// only then.
func TestReplaced(t *testing.T) {
	b, c := sandbox(t, options{})
	run(t, c, script("echo x > kept"))
	other, err := compile(filepath.Join(t.TempDir(), "agent"), "other")
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(other)
	next := &box{id: b.id, build: hex.EncodeToString(sum[:])}
	if next.build == b.build {
		t.Fatal("both builds are the same")
	}
	next.install(t, next.build, other)

	spec := script("echo begun; sleep 1000")
	if err := c.StartRun(t.Context(), backend.DetachedStart{RunSpec: spec}, &heard{}); err != nil {
		t.Fatal(err)
	}
	busy := next.open(t)
	if got := busy.Agent().Build; got != b.build {
		t.Errorf("a busy agent was replaced by %s", got)
	}
	if err := busy.KillRun(t.Context(), spec.RunID); err != nil {
		t.Fatal(err)
	}
	idle := next.open(t)
	if got := idle.Agent(); got.Build != next.build || got.UID != c.Agent().UID {
		t.Errorf("the agent is %+v", got)
	}
	if _, h := run(t, idle, script("cat kept")); h.stdout.String() != "x\n" {
		t.Errorf("stdout %q, stderr %q", h.stdout.String(), h.stderr.String())
	}
}

// TestTwoClients: connections do not get into each other's way.
func TestTwoClients(t *testing.T) {
	b, one := sandbox(t, options{})
	two := b.open(t)
	var wg sync.WaitGroup
	for i, c := range []*agentclient.Client{one, two, one, two} {
		wg.Go(func() {
			name := fmt.Sprintf("%s/f%d", backend.DataDir, i)
			for range 20 {
				if _, err := c.WriteFile(t.Context(), name, backend.WriteOptions{}, strings.NewReader(name)); err != nil {
					t.Error(err)
					return
				}
			}
			res, h := run(t, c, script(fmt.Sprintf("echo %d > own%d; cat f%d", i, i, i)))
			if h.stdout.String() != name || len(res.Changed) != 1 {
				t.Errorf("client %d: %+v, stdout %q, stderr %q", i, res, h.stdout.String(), h.stderr.String())
			}
		})
	}
	wg.Wait()
}

// TestDetached: what was printed is kept for who comes later, on any connection.
func TestDetached(t *testing.T) {
	b, c := sandbox(t, options{})
	spec := script(`cat; echo; echo x > made; for i in 1 2 3; do echo $i; sleep 0.1; done; sleep 1000`)
	spec.Stdin = true
	if err := c.StartRun(t.Context(), backend.DetachedStart{RunSpec: spec}, &heard{stdin: strings.NewReader("typed")}); err != nil {
		t.Fatal(err)
	}
	if left := b.left(t); !strings.Contains(left, "Name:") {
		t.Errorf("the list of processes is %q although one runs", left)
	}
	if err := c.StartRun(t.Context(), backend.DetachedStart{RunSpec: spec}, &heard{stdin: strings.NewReader("")}); backend.KindOf(err) != backend.KindConflict {
		t.Errorf("a second run of the same id: %v", err)
	}
	if n, err := c.Busy(t.Context()); n != 1 || err != nil {
		t.Errorf("busy %d, %v", n, err)
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
	again := b.open(t)
	ctx, cancel := context.WithCancel(t.Context())
	h := &heard{onOut: func(all string) error {
		if strings.HasSuffix(all, "3\n") {
			cancel()
		}
		return nil
	}}
	if _, err := again.AttachRun(ctx, spec.RunID, h); !errors.Is(err, context.Canceled) || h.stdout.String() != "typed\n1\n2\n3\n" {
		t.Errorf("AttachRun: %v, stdout %q", err, h.stdout.String())
	}
	for range 2 {
		if err := again.KillRun(t.Context(), spec.RunID); err != nil {
			t.Error(err)
		}
	}
	h = &heard{}
	res, err := again.AttachRun(t.Context(), spec.RunID, h)
	if err != nil || res.Stop != backend.StopCanceled || h.stdout.String() != "typed\n1\n2\n3\n" || len(res.Changed) != 1 {
		t.Errorf("AttachRun of an ended run: %+v, %v, stdout %q", res, err, h.stdout.String())
	}
	if left := b.left(t); left != "" {
		t.Errorf("left:\n%s", left)
	}
	spec = script("sleep 1000")
	if err := again.StartRun(t.Context(), backend.DetachedStart{RunSpec: spec, TTL: 300 * time.Millisecond}, &heard{}); err != nil {
		t.Fatal(err)
	}
	if res, err := again.AttachRun(t.Context(), spec.RunID, &heard{}); err != nil || res.Stop != backend.StopTimeout {
		t.Errorf("a run that outlived its time: %+v, %v", res, err)
	}
}

// TestRelaysEnd: a connection that has ended leaves no process.
func TestRelaysEnd(t *testing.T) {
	b, c := sandbox(t, options{})
	relays := func() string {
		out, _ := b.exec(t, "0:0", "sh", "-c", `n=0; for p in /proc/[0-9]*; do [ $p = /proc/$$ ] && continue; case "$(tr '\0' ' ' < $p/cmdline 2>/dev/null)" in */agent-*" relay "*) n=$((n+1));; esac; done; echo $n`)
		return strings.TrimSpace(out)
	}
	k := &cutter{dial: b.dial}
	for range 3 {
		run(t, b.openWith(t, k.Dial), script("true"))
	}
	if got := relays(); got != "4" {
		t.Errorf("%s relays, want 4", got)
	}
	k.cut()
	if !eventually(func() bool { return relays() == "1" }) {
		t.Errorf("%s relays are left, want 1", relays())
	}
	goesOn(t, c)
}
