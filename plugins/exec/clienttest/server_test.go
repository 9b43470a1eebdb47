package clienttest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/caisson-run/caisson/internal/porttest"
	"github.com/caisson-run/caisson/plugins/internal/remotetest"
)

// server is a running `caisson serve`.
type server struct {
	url  string // http://HOST:PORT
	key  string
	data string // its directory
	log  *serverLog
}

// serverLog is what a server wrote, which may be read while it writes.
type serverLog struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *serverLog) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *serverLog) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// startServer runs the built server with a data directory of its own and further
// arguments, waits until a run would succeed, and stops it with the test.
func startServer(t *testing.T, args ...string) server {
	t.Helper()
	if testing.Short() {
		t.Skip("the built server takes its time, and no race detector sees into it")
	}
	binary, err := filepath.Abs(filepath.FromSlash("../../../bin/caisson"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(binary); err != nil {
		need(t, "bin/caisson is missing; run \"make build\"")
	}
	s := server{key: "a-key-of-the-test", data: t.TempDir(), log: new(serverLog)}
	// Compiled interpreters, where somebody keeps them between tests.
	if cache := os.Getenv("CAISSON_TEST_CACHE"); cache != "" {
		if err := os.Symlink(cache, filepath.Join(s.data, "cache")); err != nil {
			t.Fatal(err)
		}
	}
	addr := porttest.Free(t)
	s.url = "http://" + addr

	cmd := exec.Command(binary, append([]string{"serve", "--addr", addr, "--data", s.data}, args...)...)
	cmd.Env = append(os.Environ(), "CODE_EXEC_API_KEY="+s.key, "CODE_EXEC_FEE_CENTS=0", "REMOTE_KEY="+remotetest.Key)
	cmd.Stdout, cmd.Stderr = s.log, s.log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	exited := make(chan error, 1)
	go func() { exited <- cmd.Wait() }()
	t.Cleanup(func() {
		err := cmd.Process.Signal(syscall.SIGTERM)
		select {
		case werr := <-exited:
			err = errors.Join(err, werr)
		case <-time.After(time.Minute):
			err = errors.Join(err, errors.New("still running a minute after SIGTERM"), cmd.Process.Kill())
			<-exited
		}
		if err != nil {
			t.Errorf("stop server: %v", err)
		}
		if t.Failed() {
			t.Logf("log of the server:\n%s", s.log)
		}
	})

	// The interpreters may have to be compiled first.
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
	defer cancel()
	tick := time.NewTicker(250 * time.Millisecond)
	defer tick.Stop()
	for {
		err := healthy(ctx, s.url)
		if err == nil {
			return s
		}
		select {
		case <-tick.C:
		case err := <-exited:
			exited <- err // for the cleanup
			t.Fatalf("the server ended: %v", err)
		case <-ctx.Done():
			t.Fatalf("the server is not ready: %v", err)
		}
	}
}

func healthy(ctx context.Context, url string) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url+"/v1/exec/health", nil)
	if err != nil {
		return err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	if response.StatusCode != http.StatusOK {
		err = fmt.Errorf("health is %s", response.Status)
	}
	return errors.Join(err, response.Body.Close())
}
