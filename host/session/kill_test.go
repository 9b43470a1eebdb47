package session_test

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/caisson-run/caisson/host/session"
	"github.com/caisson-run/caisson/host/session/binding"
	"github.com/caisson-run/caisson/host/session/binding/redis"
	"github.com/caisson-run/caisson/host/session/reaper"
	"github.com/caisson-run/caisson/internal/hostbackend"
	"github.com/caisson-run/caisson/internal/redistest"
	"github.com/caisson-run/caisson/sdk/backend"
)

// Replicas of these tests are processes of this test's own program, which end by kill -9.
// They share a Redis and an account whose sandboxes are directories.

// order is one line from the test to a replica, answer one line back.
type order struct {
	N       int    `json:"n"`
	Op      string `json:"op"` // write, destroy or sweep
	Session string `json:"session"`
	Line    string `json:"line"`
}

type answer struct {
	N   int    `json:"n"`
	Err string `json:"err"`
	// Fault says that the error is not one that a store or a lost lock accounts for.
	Fault bool   `json:"fault"`
	Out   string `json:"out"`
}

type replicaSettings struct {
	Redis, Boxes string
	Named        bool
}

const (
	replicaVariable = "CAISSON_TEST_REPLICA"
	replicaLease    = 3 * time.Second
)

// TestReplicaProcess is a replica.
func TestReplicaProcess(t *testing.T) {
	var o replicaSettings
	if err := json.Unmarshal([]byte(os.Getenv(replicaVariable)), &o); err != nil {
		t.Skip("SKIP: it is the replica of other tests")
	}
	b := hostbackend.NewShared(o.Boxes, hostbackend.Shared{Named: o.Named, Delay: 10 * time.Millisecond})
	store, err := redis.New(redis.Options{Addrs: []string{o.Redis}, Store: binding.Options{OpTimeout: time.Second, Lease: replicaLease}})
	if err == nil {
		err = b.OpenConfig(t.Context(), "main", json.RawMessage(`{}`))
	}
	if err != nil {
		t.Fatal(err)
	}
	info, _ := b.Info(t.Context())
	targets := fixedTarget{session.Target{Config: "main", Backend: b, Info: info, Release: func() {}}}
	manager, err := session.NewManager(session.ManagerOptions{
		Tenant: "acme", Config: "main", Deployment: "test", Targets: targets, Store: store, Exists: &existence{},
	})
	if err != nil {
		t.Fatal(err)
	}
	sweeper := reaper.New(reaper.Options{Targets: targets, Store: store, Deployment: "test", Exists: &existence{}, Grace: -1})
	var mu sync.Mutex
	out := json.NewEncoder(os.Stderr) // stdout is the testing package's
	in := bufio.NewScanner(os.Stdin)
	for in.Scan() {
		var o order
		if err := json.Unmarshal(in.Bytes(), &o); err != nil {
			t.Fatal(err)
		}
		go func() {
			ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
			defer cancel()
			a := answer{N: o.N}
			var err error
			switch o.Op {
			case "write":
				var r backend.ExecResult
				r, err = manager.Exec(ctx, o.Session, backend.ExecRequest{Argv: []string{"sh", "-c", "echo " + o.Line + " >>log; cat log"}})
				a.Out = string(r.Stdout)
			case "destroy":
				err = manager.Destroy(ctx, o.Session)
			case "sweep":
				_, err = sweeper.Sweep(ctx)
			}
			if err != nil {
				a.Err = err.Error()
				a.Fault = !errors.Is(err, binding.ErrUnavailable) && !errors.Is(err, binding.ErrOwnershipLost) && !errors.Is(err, binding.ErrLockBusy)
			}
			mu.Lock()
			defer mu.Unlock()
			_ = out.Encode(a)
		}()
	}
	os.Exit(0)
}

// fixedTarget is session.Targets with one config.
type fixedTarget struct{ t session.Target }

func (f fixedTarget) Default(context.Context, string) (session.Target, error) { return f.t, nil }

func (f fixedTarget) Named(_ context.Context, _, config string) (session.Target, error) {
	if config != f.t.Config {
		return session.Target{}, session.ErrConfigNotFound
	}
	return f.t, nil
}

func (f fixedTarget) Configs(string) []string { return []string{f.t.Config} }

// process is a replica that runs.
type process struct {
	cmd  *exec.Cmd
	in   io.WriteCloser
	done chan struct{} // closed when it has ended

	mu      sync.Mutex
	waiting map[int]chan answer
	n       int
}

func startReplica(t *testing.T, o replicaSettings) *process {
	t.Helper()
	p := &process{cmd: exec.Command(os.Args[0], "-test.run", "^TestReplicaProcess$"), done: make(chan struct{}), waiting: map[int]chan answer{}}
	settings, _ := json.Marshal(o)
	p.cmd.Env = append(os.Environ(), replicaVariable+"="+string(settings))
	in, err := p.cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := p.cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	p.in = in
	go func() {
		defer close(p.done)
		lines := bufio.NewScanner(out)
		lines.Buffer(nil, 1<<20)
		for lines.Scan() {
			var a answer
			if json.Unmarshal(lines.Bytes(), &a) != nil {
				continue
			}
			p.mu.Lock()
			c := p.waiting[a.N]
			delete(p.waiting, a.N)
			p.mu.Unlock()
			if c != nil {
				c <- a
			}
		}
		_ = p.cmd.Wait()
	}()
	t.Cleanup(p.kill)
	return p
}

// ask sends an order; ok is false when the replica ended without an answer.
func (p *process) ask(o order) (a answer, ok bool) {
	c := make(chan answer, 1)
	p.mu.Lock()
	p.n++
	o.N = p.n
	p.waiting[o.N] = c
	text, _ := json.Marshal(o)
	_, err := p.in.Write(append(text, '\n'))
	p.mu.Unlock()
	if err != nil {
		return answer{}, false
	}
	select {
	case a = <-c:
		return a, true
	case <-p.done:
		return answer{}, false
	}
}

func (p *process) kill() {
	_ = p.cmd.Process.Kill()
	<-p.done
	_ = p.in.Close()
}

// held is what the test knows of a session.
type held struct {
	mu        sync.Mutex
	lines     []string // acknowledged
	destroyed bool     // acknowledged
}

// killing is one run of the test.
type killing struct {
	t        *testing.T
	o        replicaSettings
	redis    *redistest.Server
	replicas [2]*process

	mu       sync.Mutex
	sessions map[string]*held
	number   int
	failed   int // orders without an answer, or with an error
}

// write adds a line to a session, and remembers it if that was acknowledged.
func (k *killing) write(p *process, name string) {
	k.mu.Lock()
	k.number++
	line := fmt.Sprint(k.number)
	h := k.sessions[name]
	if h == nil {
		h = &held{}
		k.sessions[name] = h
	}
	k.mu.Unlock()
	h.mu.Lock()
	before := slices.Clone(h.lines)
	h.mu.Unlock()
	a, ok := p.ask(order{Op: "write", Session: name, Line: line})
	if k.bad("write", name, a, ok) {
		return
	}
	printed := strings.Fields(a.Out)
	for _, l := range before {
		if !slices.Contains(printed, l) {
			k.t.Errorf("session %s lost line %s", name, l)
		}
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.lines = append(h.lines, line)
}

// bad counts an order that failed. A fault that no killed process accounts for fails the
// test.
func (k *killing) bad(op, name string, a answer, ok bool) bool {
	if ok && a.Err == "" {
		return false
	}
	if a.Fault {
		k.t.Errorf("%s %s: %s", op, name, a.Err)
	}
	k.mu.Lock()
	k.failed++
	k.mu.Unlock()
	time.Sleep(5 * time.Millisecond) // nobody asks a dead replica without a pause
	return true
}

// load uses sessions on both replicas until ctx ends: most again and again, and one in
// eight only until it is destroyed.
func (k *killing) load(ctx context.Context, seed uint64) *sync.WaitGroup {
	var wg sync.WaitGroup
	for client := range 4 {
		random := rand.New(rand.NewPCG(seed, uint64(client)))
		wg.Go(func() {
			for ctx.Err() == nil {
				p := k.any(random)
				if random.IntN(8) > 0 {
					k.write(p, fmt.Sprintf("s%d", random.IntN(40)))
					continue
				}
				name := fmt.Sprintf("d%d-%d", seed, random.Uint64())
				k.write(p, name)
				a, ok := k.any(random).ask(order{Op: "destroy", Session: name})
				gone := !k.bad("destroy", name, a, ok)
				k.mu.Lock()
				h := k.sessions[name]
				k.mu.Unlock()
				h.mu.Lock()
				h.lines, h.destroyed = nil, gone
				h.mu.Unlock()
			}
		})
	}
	return &wg
}

// any is one of the replicas that run now.
func (k *killing) any(random *rand.Rand) *process {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.replicas[random.IntN(2)]
}

// check sweeps once and then looks at the account itself.
func (k *killing) check(when string) {
	k.t.Helper()
	if a, ok := k.replicas[0].ask(order{Op: "sweep"}); !ok || a.Err != "" {
		k.t.Errorf("%s: sweep: %v %s", when, ok, a.Err)
	}
	store, err := redis.New(redis.Options{Addrs: []string{k.o.Redis}})
	if err != nil {
		k.t.Fatal(err)
	}
	defer store.Close()
	entries, err := os.ReadDir(k.o.Boxes)
	if err != nil {
		k.t.Fatal(err)
	}
	found := map[string]string{} // session to directory
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), ".") {
			continue
		}
		var sb backend.Sandbox
		text, err := os.ReadFile(filepath.Join(k.o.Boxes, e.Name(), "about.json"))
		if err == nil {
			err = json.Unmarshal(text, &sb)
		}
		if err != nil {
			k.t.Fatal(err)
		}
		name := sb.Metadata.Labels[session.LabelSession]
		if found[name] != "" {
			k.t.Errorf("%s: session %s has two sandboxes", when, name)
		}
		found[name] = filepath.Join(k.o.Boxes, e.Name())
		if b, ok, err := store.Get(k.t.Context(), binding.Key{Tenant: "acme", Session: name}); err != nil || !ok || b.Sandbox != sb.ID {
			k.t.Errorf("%s: sandbox %s of session %s is an orphan: bound to %q, %v", when, sb.ID, name, b.Sandbox, err)
		}
	}
	for name, h := range k.sessions {
		if h.destroyed && found[name] != "" {
			k.t.Errorf("%s: session %s was destroyed and has a sandbox", when, name)
		}
		if len(h.lines) == 0 {
			continue
		}
		text, err := os.ReadFile(filepath.Join(found[name], "root", backend.DataDir, "log"))
		have := strings.Fields(string(text))
		for _, l := range h.lines {
			if !slices.Contains(have, l) {
				k.t.Errorf("%s: session %s: line %s is lost: %v", when, name, l, err)
			}
		}
	}
}

func killReplicas(t *testing.T, named bool, seed uint64, points int, length time.Duration) {
	t.Logf("seed %d", seed)
	k := &killing{t: t, redis: redistest.Start(t), sessions: map[string]*held{}}
	k.o = replicaSettings{Redis: k.redis.Addr, Boxes: t.TempDir(), Named: named}
	for i := range k.replicas {
		k.replicas[i] = startReplica(t, k.o)
	}
	random := rand.New(rand.NewPCG(seed, 0))
	began, point := time.Now(), 0
	for point < points || time.Since(began) < length {
		ctx, cancel := context.WithCancel(t.Context())
		loads := []*sync.WaitGroup{k.load(ctx, random.Uint64())}
		when := "after points"
		// Sometimes the next comes before anybody has looked after the last.
		for range 1 + random.IntN(3) {
			time.Sleep(time.Duration(random.Int64N(int64(300 * time.Millisecond))))
			what := 1 + random.IntN(7)
			if point%8 == 3 {
				what = 8 + random.IntN(4)
			}
			k.strike(what)
			when += fmt.Sprintf(" %d (%04b)", point, what)
			point++
			loads = append(loads, k.load(ctx, random.Uint64()))
		}
		cancel()
		for _, wg := range loads {
			wg.Wait()
		}
		k.ready()
		k.check(when)
		if t.Failed() {
			t.FailNow()
		}
	}
	t.Logf("%d points, %d sessions, %d writes, %d orders failed", point, len(k.sessions), k.number, k.failed)
	if k.failed == 0 {
		t.Error("nothing was in the way of being killed")
	}
}

// strike kills what the bits say, at once, and starts it again: replica 1, replica 2,
// Redis, which forgets everything. The fourth bit freezes what it does not kill of the
// first two for longer than a lease lasts, and lets it go on with whatever it was doing.
func (k *killing) strike(what int) {
	if what&8 != 0 {
		var frozen []*process
		for i, p := range k.replicas {
			if what&(1<<i) == 0 {
				frozen = append(frozen, p)
				_ = p.cmd.Process.Signal(syscall.SIGSTOP)
			}
		}
		defer func() {
			time.Sleep(replicaLease + replicaLease/3)
			for _, p := range frozen {
				_ = p.cmd.Process.Signal(syscall.SIGCONT)
			}
		}()
	}
	var killed sync.WaitGroup
	for i, p := range k.replicas {
		if what&(1<<i) != 0 {
			killed.Go(p.kill)
		}
	}
	if what&4 != 0 {
		killed.Go(k.redis.Kill)
	}
	killed.Wait()
	if what&4 != 0 {
		k.redis.Start(k.t)
	}
	for i := range k.replicas {
		if what&(1<<i) != 0 {
			p := startReplica(k.t, k.o)
			k.mu.Lock()
			k.replicas[i] = p
			k.mu.Unlock()
		}
	}
}

// ready waits until every session can be used on every replica, locks of the dead
// included.
func (k *killing) ready() {
	k.t.Helper()
	deadline := time.Now().Add(time.Minute)
	for _, p := range k.replicas {
		for {
			a, ok := p.ask(order{Op: "write", Session: "ready", Line: "0"})
			if ok && a.Err == "" {
				break
			}
			if time.Now().After(deadline) {
				k.t.Fatalf("a replica does not work again: %v %s", ok, cmp.Or(a.Err, "no answer"))
			}
			time.Sleep(20 * time.Millisecond)
		}
	}
}

// TestReplicasAreKilled: whatever is killed at whatever moment, one sweep later every
// session has its one sandbox with everything in it, and there is no other.
func TestReplicasAreKilled(t *testing.T) {
	for name, kind := range map[string]bool{"named": true, "nameless": false} {
		t.Run(name, func(t *testing.T) { killReplicas(t, kind, 1, 4, 0) })
	}
}

func TestSoakReplicasAreKilled(t *testing.T) {
	length, err := time.ParseDuration(os.Getenv("CAISSON_SOAK"))
	if err != nil {
		t.Skip("SKIP: CAISSON_SOAK is no duration; see make soak")
	}
	for name, kind := range map[string]bool{"named": true, "nameless": false} {
		t.Run(name, func(t *testing.T) { killReplicas(t, kind, uint64(time.Now().UnixNano()), 50, length/2) })
	}
}
