package session_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"sync"
	"testing"
	"time"

	"github.com/caisson-run/caisson/host/session"
	"github.com/caisson-run/caisson/host/session/binding"
	"github.com/caisson-run/caisson/host/session/binding/redis"
	"github.com/caisson-run/caisson/host/session/reaper"
	"github.com/caisson-run/caisson/internal/hostbackend"
	"github.com/caisson-run/caisson/sdk/backend"
)

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
