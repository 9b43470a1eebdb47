package session_test

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
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
	"github.com/caisson-run/caisson/internal/redistest"
	"github.com/caisson-run/caisson/sdk/backend"
)

// Replicas of these tests are processes of this test's own program, which end by kill -9.
// They share a Redis and an account whose sandboxes are directories.

const (
	replicaVariable = "CAISSON_TEST_REPLICA"
	replicaLease    = 3 * time.Second
)

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
