package process

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"go.uber.org/goleak"

	"github.com/caisson-run/caisson/sdk/backend"
)

// The test binary is every program that these tests start.
const modeEnv = "CAISSON_TEST_MODE"

func TestMain(m *testing.M) {
	mode, arg, _ := strings.Cut(os.Getenv(modeEnv), ":")
	if mode == "" {
		goleak.VerifyTestMain(m)
		return
	}
	switch mode {
	case "serve":
		serveTest(arg)
	case "backend":
		serveHost(arg)
	case "exit":
		fmt.Fprintln(os.Stderr, "cannot find its engine")
		os.Exit(3)
	case "panic":
		panic("before the handshake")
	case "silent":
		hang()
	case "garbage":
		for i := range 10_000 {
			fmt.Printf("line %d of something else\n", i)
		}
		hang()
	case "noise": // prints, then serves
		fmt.Println("initialising some library")
		fmt.Println("1|2|half|a handshake")
		serveTest("")
	case "endless": // one line without an end
		chunk := strings.Repeat("x", 1<<16)
		for {
			if _, err := os.Stdout.WriteString(chunk); err != nil {
				return
			}
		}
	case "handshake": // a line of its own and nothing behind it
		fmt.Println(arg)
		hang()
	case "host":
		hostTest(arg)
	case "keeper":
		keeperTest(arg)
	case "descendant":
		hang()
	}
}

// hang waits until the process is killed. An empty select would end it in a
// program without cgo, where the runtime sees that nothing can ever wake it.
func hang() {
	for {
		time.Sleep(time.Hour)
	}
}

// serveTest is a plugin whose backend does what arg says.
func serveTest(arg string) {
	if arg == "stubborn" {
		signal.Ignore(syscall.SIGTERM)
	}
	backend.Serve(func(_ context.Context, log hclog.Logger) (backend.Backend, error) {
		switch arg {
		case "refuse":
			return nil, errors.New("no licence")
		case "overpromise":
			return &testBackend{caps: []backend.Capability{backend.CapPause}}, nil
		case "print":
			fmt.Println("stray words")
			fmt.Fprintln(os.Stderr, "[WARN] plain words")
			out, err := exec.Command("/bin/sh", "-c", "echo from a child").Output()
			log.Info("output of a child was captured", "out", string(out), "err", err)
			_ = run("/bin/sh", "-c", "echo stray child")
		}
		b := &testBackend{log: log, arg: arg}
		if arg == "stubborn" {
			return slowClose{b}, nil
		}
		return b, nil
	})
	if arg == "stubborn" {
		hang()
	}
}

func run(name string, args ...string) error {
	c := exec.Command(name, args...)
	c.Stdout, c.Stderr = os.NewFile(1, "stdout"), os.Stderr // descriptor 1 itself
	return c.Run()
}

type slowClose struct{ *testBackend }

func (slowClose) Close() error { select {} }

// testBackend implements what the tests of the process need.
type testBackend struct {
	backend.Backend
	log  hclog.Logger
	arg  string
	caps []backend.Capability
}

func (b *testBackend) Info(context.Context) (backend.Info, error) {
	return backend.Info{Name: "test", Version: "1.0.0", Capabilities: b.caps}, nil
}

func (b *testBackend) Health(context.Context) (backend.Health, error) {
	return backend.Health{Ready: true, Reason: strings.Join(os.Environ(), "\n")}, nil
}

// OpenConfig panics: the process must survive it.
func (b *testBackend) OpenConfig(context.Context, string, jsonRaw) error { panic("in a handler") }

// Exec runs what Argv names.
func (b *testBackend) Exec(ctx context.Context, r backend.ExecRequest) (backend.ExecResult, error) {
	switch r.Argv[0] {
	case "pid":
		return backend.ExecResult{Stop: backend.StopExit, ExitCode: os.Getpid()}, nil
	case "descendant":
		c := exec.Command("/proc/self/exe")
		c.Env = []string{modeEnv + "=descendant"}
		c.Stdout, c.Stderr = os.Stdout, os.Stderr
		if err := c.Start(); err != nil {
			return backend.ExecResult{}, err
		}
		return backend.ExecResult{Stop: backend.StopExit, ExitCode: c.Process.Pid}, nil
	case "term": // is told to end during the call, which takes a little longer
		if err := syscall.Kill(os.Getpid(), syscall.SIGTERM); err != nil {
			return backend.ExecResult{}, err
		}
		timer := time.NewTimer(100 * time.Millisecond)
		defer timer.Stop()
		select {
		case <-timer.C:
			return backend.ExecResult{Stop: backend.StopExit, Stdout: []byte("finished")}, nil
		case <-ctx.Done():
			return backend.ExecResult{}, ctx.Err()
		}
	case "flood":
		for i := range 100_000 {
			b.log.Info("flood", "line", i)
		}
		return backend.ExecResult{Stop: backend.StopExit}, nil
	case "crash":
		go func() { panic("in a goroutine of its own") }()
		<-ctx.Done()
	}
	return backend.ExecResult{}, errors.New("unknown command")
}

// Run starts and then goes on until it is stopped.
func (b *testBackend) Run(ctx context.Context, _ backend.RunSpec, live backend.RunIO) (backend.RunResult, error) {
	if err := live.Started(); err != nil {
		return backend.RunResult{}, err
	}
	if err := live.Stdout([]byte("running")); err != nil {
		return backend.RunResult{}, err
	}
	<-ctx.Done()
	return backend.RunResult{Stop: backend.StopCanceled, ExitCode: -1, StdoutBytes: 7}, nil
}

// hostTest is a host that starts a plugin, says so, and waits to be killed.
func hostTest(root string) {
	p, err := Start(context.Background(), Spec{
		Name: "orphan", Path: "/proc/self/exe", SocketRoot: root, Env: []string{modeEnv + "=serve:"},
	})
	if err != nil {
		fmt.Println("error:", err)
		os.Exit(1)
	}
	fmt.Println(p.PID())
	_, _ = io.Copy(io.Discard, os.Stdin)
	time.Sleep(time.Hour)
}
