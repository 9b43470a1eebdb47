package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/caisson-run/caisson/internal/redistest"
)

// TestReplicasAreKilled kills replicas, their Redis, or both, in the middle of work.
func TestReplicasAreKilled(t *testing.T) {
	if testing.Short() {
		t.Skip("it waits for the claims of the killed to end")
	}
	t.Parallel()
	for name, named := range map[string]bool{"named": true, "nameless": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			storm(t, named, 1, 4, 0)
		})
	}
}

// TestSoakReplicasAreKilled does so a hundred times at least, and for as long as it is
// told.
func TestSoakReplicasAreKilled(t *testing.T) {
	length, err := time.ParseDuration(os.Getenv("CAISSON_SOAK"))
	if err != nil {
		t.Skip("SKIP: CAISSON_SOAK is no duration; see make soak")
	}
	for name, named := range map[string]bool{"named": true, "nameless": false} {
		t.Run(name, func(t *testing.T) { storm(t, named, uint64(time.Now().UnixNano()), 50, length/2) })
	}
}

// replicas are two servers on one Redis, over sandboxes that are directories.
type replicas struct {
	t       *testing.T
	boxes   string // the provider's account
	redis   *redistest.Server
	places  [2]place
	config  [2]string
	plugins string
	servers [2]atomic.Pointer[server]

	mu       sync.Mutex
	sessions []*tracked
	killed   time.Time // somebody, the last time
	unknown  int       // creates that were not answered
	failed   int       // writes that were not answered, or with an error
}

// tracked is a session that a client holds.
type tracked struct {
	id    string
	mu    sync.Mutex
	lines []string // that a reply said were written
}

func newReplicas(t *testing.T, named bool) *replicas {
	t.Helper()
	r := &replicas{t: t}
	for i := range r.places {
		r.places[i] = newPlace(t)
	}
	r.redis = redistest.Start(t)
	dir := filepath.Dir(r.places[0].data)
	r.boxes, r.plugins = filepath.Join(dir, "boxes"), filepath.Join(dir, "plugins")
	plugin := filepath.Join(r.plugins, "shared")
	if err := errors.Join(os.Mkdir(r.boxes, 0o700), os.MkdirAll(plugin, 0o700)); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("go", "build", "-o", filepath.Join(plugin, "shared"), "./testdata/shared").CombinedOutput(); err != nil {
		t.Fatalf("build the plugin: %v\n%s", err, out)
	}
	capabilities, flag := "metadata, list, fs_enum, shared, control", "0"
	if named {
		capabilities, flag = capabilities+", names", "1"
	}
	manifest := fmt.Sprintf(`schema: 1
name: shared
version: 0.1.0
kind: backend
runtime: process
protocol: [1]
path: shared
description: Directories that replicas share.
licence: Apache-2.0
capabilities: [%s]
state_schema: ["1"]
env: [PATH, SHARED_DIR, SHARED_NAMED, SHARED_DELAY]
`, capabilities)
	if err := os.WriteFile(filepath.Join(plugin, "plugin.yaml"), []byte(manifest), 0o600); err != nil {
		t.Fatal(err)
	}
	for i := range r.places {
		r.places[i].env = append(r.places[i].env, "CODE_EXEC_API_KEY="+testKey, "CODE_EXEC_FEE_CENTS=0",
			"CAISSON_SECRET=a secret that both replicas know", "CAISSON_REDIS_URL=unix://"+r.redis.Addr,
			"SHARED_DIR="+r.boxes, "SHARED_NAMED="+flag, "SHARED_DELAY=10ms")
	}
	r.configure("10m")
	return r
}

// configure sets the clock of idle sessions for servers that start after it.
func (r *replicas) configure(idle string) {
	r.t.Helper()
	for i, p := range r.places {
		r.config[i] = p.config(r.t, fmt.Sprintf(`deployment: storm
default_backend: shared
backends: [{id: shared, plugin: shared}]
sessions: {store: redis, idle: %s, grace: 1s}
queue: {tenant_waiting: 256}
`, idle))
	}
}

func (r *replicas) start(i int) {
	r.t.Helper()
	s := r.places[i].serve(r.t, "--config", r.config[i], "--plugins", r.plugins, "--plugins", plugins)
	r.servers[i].Store(s)
}

func (r *replicas) ready() {
	r.t.Helper()
	for i := range r.servers {
		r.servers[i].Load().ready(r.t)
	}
}

// kill ends a replica as a crash does.
func (r *replicas) kill(i int) {
	s := r.servers[i].Load()
	_ = s.cmd.Process.Signal(syscall.SIGKILL)
	<-s.exited
}

// claim is how long what a killed replica had claimed stays so (binding.Options.Lease).
const claim = time.Minute

// write runs a program that adds a line to the session's file and prints the file; in a
// new session if t is nil.
func (r *replicas) write(ctx context.Context, s *server, x *tracked, line string) {
	body := map[string]string{"lang": "bash", "code": "echo " + line + " >>log; cat log"}
	var before []string
	if x != nil {
		body["session_id"] = x.id
		x.mu.Lock()
		before = slices.Clone(x.lines)
		x.mu.Unlock()
	}
	text, _ := json.Marshal(body)
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	reply, err := s.request(ctx, http.MethodPost, "/v1/exec", s.key, string(text))
	var a answer
	if err == nil && reply.status == http.StatusOK {
		if err = json.Unmarshal([]byte(reply.body), &a); err == nil && (a.Code == nil || *a.Code != 0) {
			err = errors.New("it did not end well")
		}
	} else if err == nil {
		err = fmt.Errorf("status %d", reply.status)
		if x != nil && reply.status == http.StatusNotFound {
			r.t.Errorf("session %s is lost: %s", x.id, reply.body)
		}
	}
	if err != nil {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.failed++
		if x == nil {
			r.unknown++
		}
		return
	}
	if x == nil {
		x = &tracked{id: a.SessionID}
		r.mu.Lock()
		r.sessions = append(r.sessions, x)
		r.mu.Unlock()
	}
	if a.SessionID != x.id {
		r.t.Errorf("session %s was answered as %s: its sandbox was made again", x.id, a.SessionID)
	}
	printed := strings.Fields(a.Stdout)
	for _, l := range before {
		if !slices.Contains(printed, l) {
			r.t.Errorf("session %s lost line %s", x.id, l)
		}
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	x.lines = append(x.lines, line)
}

// load writes to old and new sessions on both replicas until ctx ends.
func (r *replicas) load(ctx context.Context, seed uint64, number *atomic.Int64) *sync.WaitGroup {
	var wg sync.WaitGroup
	for client := range 4 {
		random := rand.New(rand.NewPCG(seed, uint64(client)))
		wg.Go(func() {
			for ctx.Err() == nil {
				var x *tracked
				r.mu.Lock()
				if n := len(r.sessions); n >= 4 && (random.IntN(4) > 0 || n >= 60) {
					x = r.sessions[random.IntN(n)]
				}
				r.mu.Unlock()
				line := fmt.Sprint(number.Add(1))
				r.write(context.WithoutCancel(ctx), r.servers[random.IntN(2)].Load(), x, line)
			}
		})
	}
	return &wg
}

// box is what the provider has.
type box struct {
	Metadata struct {
		Session string `json:"session"`
	} `json:"metadata"`
	dir string
}

func (r *replicas) provider() []box {
	r.t.Helper()
	entries, err := os.ReadDir(r.boxes)
	if err != nil {
		r.t.Fatal(err)
	}
	var list []box
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), ".") {
			continue
		}
		b := box{dir: filepath.Join(r.boxes, e.Name())}
		text, err := os.ReadFile(filepath.Join(b.dir, "about.json"))
		if errors.Is(err, fs.ErrNotExist) {
			continue // it went meanwhile
		}
		if err == nil {
			err = json.Unmarshal(text, &b)
		}
		if err != nil {
			r.t.Fatal(err)
		}
		list = append(list, b)
	}
	return list
}

// check looks at the provider itself: one sandbox for every session that was answered,
// with everything in it, and no more others than were not.
func (r *replicas) check(when string) {
	r.t.Helper()
	found := map[string][]box{}
	for _, b := range r.provider() {
		found[b.Metadata.Session] = append(found[b.Metadata.Session], b)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for session, list := range found {
		if len(list) > 1 {
			r.t.Errorf("%s: session %s has %d sandboxes", when, session, len(list))
		}
	}
	for _, x := range r.sessions {
		x.mu.Lock()
		if len(found[x.id]) == 0 {
			r.t.Errorf("%s: session %s has no sandbox any more", when, x.id)
		} else {
			text, err := os.ReadFile(filepath.Join(found[x.id][0].dir, "root", "mnt", "data", "log"))
			if err != nil {
				r.t.Errorf("%s: session %s: %v", when, x.id, err)
			}
			have := strings.Fields(string(text))
			for _, l := range x.lines {
				if !slices.Contains(have, l) {
					r.t.Errorf("%s: session %s: line %s is lost", when, x.id, l)
				}
			}
		}
		x.mu.Unlock()
		delete(found, x.id)
	}
	if len(found) > r.unknown {
		r.t.Errorf("%s: %d sandboxes are of nobody, and %d creates were not answered", when, len(found), r.unknown)
	}
}

// storm kills at seeded random moments, at least so many times and for so long.
func storm(t *testing.T, named bool, seed uint64, points int, length time.Duration) {
	r := newReplicas(t, named)
	for i := range r.servers {
		r.start(i)
	}
	r.ready()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	var number atomic.Int64
	began := time.Now()
	point := 0
	for ; point < points || time.Since(began) < length; point++ {
		ctx, cancel := context.WithCancel(t.Context())
		wg := r.load(ctx, random.Uint64(), &number)
		time.Sleep(time.Duration(random.Int64N(int64(400 * time.Millisecond))))
		what := 1 + random.IntN(7) // any of the three, or several
		var killed sync.WaitGroup
		for i := range r.servers {
			if what&(1<<i) != 0 {
				killed.Go(func() { r.kill(i) })
			}
		}
		if what&4 != 0 {
			killed.Go(r.redis.Kill)
		}
		killed.Wait()
		r.killed = time.Now()
		cancel()
		if what&4 != 0 {
			r.redis.Start(t)
		}
		for i := range r.servers {
			if what&(1<<i) != 0 {
				r.start(i)
			}
		}
		r.ready()
		wg.Wait()
		r.check(fmt.Sprintf("after point %d, which killed %03b", point, what))
		if t.Failed() {
			t.FailNow()
		}
	}
	t.Logf("%d points, %d sessions, %d writes of which %d failed, %d creates without an answer", point, len(r.sessions), number.Load(), r.failed, r.unknown)
	if r.failed == 0 {
		t.Error("nothing was in the way of being killed")
	}
	r.settle()
	if len(r.sessions) < 4 {
		t.Error("hardly anything was done")
	}
}

// settle lets what nobody holds outlive its clock, sweeps once, and wants the sessions
// that clients hold, usable on both replicas, and nothing else.
func (r *replicas) settle() {
	t := r.t
	for i := range r.servers {
		r.servers[i].Load().stop(t)
	}
	const idle = 4 * time.Second
	r.configure(idle.String())
	for i := range r.servers {
		r.start(i)
	}
	r.ready()
	// A run of a replica that was killed keeps others out of its session until its
	// claim ends.
	touched := time.Time{}
	for _, s := range []*server{r.servers[0].Load(), r.servers[1].Load()} {
		for _, x := range r.sessions {
			s.eventually(t, "session "+x.id+" works", func() bool {
				n := len(x.lines)
				r.write(t.Context(), s, x, fmt.Sprintf("end%d", n))
				if time.Since(touched) > idle/4 { // nobody else may grow old meanwhile
					touched = time.Now()
					r.touch()
				}
				return len(x.lines) > n || t.Failed()
			})
		}
	}
	// Of a session that nobody holds, too.
	end := r.killed.Add(claim)
	if old := time.Now(); old.After(end) {
		end = old
	}
	for end = end.Add(idle + time.Second); time.Now().Before(end); {
		r.touch()
		time.Sleep(idle / 8)
	}
	if out := r.places[0].run(t, "", "session", "sweep", "--data", r.places[0].data, "--config", r.config[0]); out.code != 0 {
		t.Errorf("sweep: exit %d: %s%s", out.code, out.stdout, out.stderr)
	}
	r.unknown = 0
	r.check("after one sweep")
	for i := range r.servers {
		r.servers[i].Load().stop(t)
	}
}

// touch counts as activity in every session that clients hold.
func (r *replicas) touch() {
	held := map[string]bool{}
	for _, x := range r.sessions {
		held[x.id] = true
	}
	now := time.Now()
	for _, b := range r.provider() {
		if held[b.Metadata.Session] {
			_ = os.Chtimes(filepath.Join(b.dir, "about.json"), now, now)
		}
	}
}
