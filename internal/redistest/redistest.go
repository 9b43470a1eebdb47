// Package redistest runs real Redis servers for tests: each on a private socket, in a
// directory of its own, ended with the test or with the test's process.
package redistest

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"
)

// Server is a redis-server process.
type Server struct {
	// Addr is what a client connects to: the path of a socket, or host:port.
	Addr string

	dir  string
	args []string
	tls  bool
	pid  int
	life io.Closer // when it closes, the process ends
	wait func() error
	out  output
}

// Need skips the test where there is no redis-server, and fails it in CI.
func Need(t testing.TB) {
	t.Helper()
	if _, err := exec.LookPath("redis-server"); err == nil {
		return
	}
	if os.Getenv("CAISSON_CI") == "1" {
		t.Fatal("redis-server is not installed, and CAISSON_CI=1 does not allow to skip: apt-get install redis-server")
	}
	t.Skip("SKIP: redis-server is not installed: apt-get install redis-server")
}

// Addr is the server that CAISSON_TEST_REDIS names, or one that is started here.
// Others may use it too: take names of your own in it.
func Addr(t testing.TB) string {
	t.Helper()
	if addr := os.Getenv("CAISSON_TEST_REDIS"); addr != "" {
		return addr
	}
	return Start(t).Addr
}

// Start runs a server on a socket. Arguments are added to its command line, after
// those that make it keep nothing and take no more than 64 MB.
func Start(t testing.TB, args ...string) *Server {
	t.Helper()
	dir := tempDir(t)
	s := &Server{Addr: filepath.Join(dir, "s"), dir: dir}
	return s.launch(t, append([]string{"--port", "0", "--unixsocket", s.Addr, "--unixsocketperm", "700"}, args...))
}

// StartTCP runs a server on a free port of the loopback interface.
func StartTCP(t testing.TB, args ...string) *Server {
	t.Helper()
	s := &Server{dir: tempDir(t)}
	port := freePort(t)
	s.Addr = net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
	return s.launch(t, append([]string{"--port", strconv.Itoa(port), "--bind", "127.0.0.1"}, args...))
}

// StartTLS runs a server on a free port of the loopback interface that speaks TLS only
// and asks clients for no certificate.
func StartTLS(t testing.TB, cert, key string) *Server {
	t.Helper()
	s := &Server{dir: tempDir(t), tls: true}
	port := freePort(t)
	s.Addr = net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
	return s.launch(t, []string{
		"--port", "0", "--tls-port", strconv.Itoa(port), "--bind", "127.0.0.1",
		"--tls-cert-file", cert, "--tls-key-file", key, "--tls-auth-clients", "no",
	})
}

// StartSentinel runs a sentinel, which changes its configuration file.
func StartSentinel(t testing.TB, config string) *Server {
	t.Helper()
	Need(t)
	port := freePort(t)
	s := &Server{dir: tempDir(t), Addr: net.JoinHostPort("127.0.0.1", strconv.Itoa(port))}
	s.args = []string{config, "--sentinel", "--port", strconv.Itoa(port), "--bind", "127.0.0.1"}
	t.Cleanup(s.end)
	s.Start(t)
	return s
}

func (s *Server) launch(t testing.TB, args []string) *Server {
	t.Helper()
	Need(t)
	s.args = append([]string{"--save", "", "--appendonly", "no", "--dir", s.dir, "--maxmemory", "64mb", "--daemonize", "no"}, args...)
	t.Cleanup(s.end)
	s.Start(t)
	return s
}

// Start runs the server again, after Kill, with what it kept. It returns when the
// server answers.
func (s *Server) Start(t testing.TB) {
	t.Helper()
	if err := s.start(); err != nil {
		t.Fatal(err)
	}
	deadline := time.Now().Add(20 * time.Second)
	for {
		conn, err := net.Dial(s.network(), s.Addr)
		if err == nil && s.tls {
			_ = conn.Close()
			return
		}
		if err == nil {
			_ = conn.SetDeadline(deadline)
			_, _ = io.WriteString(conn, "PING\r\n")
			line, _ := bufio.NewReader(conn).ReadString('\n')
			_ = conn.Close()
			// Any word but LOADING is a server at work, also one that asks for a password.
			if line != "" && !strings.HasPrefix(line, "-LOADING") {
				return
			}
		}
		if time.Now().After(deadline) {
			t.Fatalf("redis-server does not answer: %v\n%s", err, s.out.String())
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// start runs the server under a shell that ends it when our side of a pipe closes,
// which it does however this process ends.
func (s *Server) start() error {
	_ = os.Remove(filepath.Join(s.dir, "s"))
	cmd := exec.Command("sh", append([]string{"-c", `sh -c 'echo $$; exec redis-server "$@"' sh "$@" & read _; kill -9 $!; wait`, "sh"}, s.args...)...)
	// A pipe by hand: Cmd would wait for the server's own copy of its output.
	r, w, err := os.Pipe()
	if err != nil {
		return err
	}
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	cmd.Stdout, cmd.Stderr = w, w
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start redis-server: %w", err)
	}
	_ = w.Close()
	in := bufio.NewReader(r)
	line, err := in.ReadString('\n')
	if err != nil {
		return fmt.Errorf("start redis-server: %w", err)
	}
	if s.pid, err = strconv.Atoi(strings.TrimSpace(line)); err != nil {
		return fmt.Errorf("start redis-server: %w", err)
	}
	copied := make(chan struct{})
	go func() {
		defer close(copied)
		_, _ = io.Copy(&s.out, in)
		_ = r.Close()
	}()
	s.life = stdin
	s.wait = func() error { err := cmd.Wait(); <-copied; return err }
	return nil
}

// Kill ends the server as a crash does.
func (s *Server) Kill() { s.end() }

// Freeze stops the server without ending it: connections stay, answers do not come.
func (s *Server) Freeze() { _ = syscall.Kill(s.pid, syscall.SIGSTOP) }

// Thaw continues a frozen server.
func (s *Server) Thaw() { _ = syscall.Kill(s.pid, syscall.SIGCONT) }

// Client is a client of the server, closed with the test.
func (s *Server) Client(t testing.TB) *goredis.Client {
	t.Helper()
	return Client(t, s.Addr)
}

// Client is a client of the server at an address, closed with the test.
func Client(t testing.TB, addr string) *goredis.Client {
	t.Helper()
	c := goredis.NewClient(&goredis.Options{Addr: addr, Network: network(addr)})
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func (s *Server) network() string { return network(s.Addr) }

func network(addr string) string {
	if strings.HasPrefix(addr, "/") {
		return "unix"
	}
	return "tcp"
}

func (s *Server) end() {
	if s.life == nil {
		return
	}
	_ = s.life.Close()
	_ = s.wait()
	s.life = nil
}

// StartCluster runs a cluster of three masters without replicas.
func StartCluster(t testing.TB) []string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	var addrs []string
	var nodes []*goredis.Client
	const slots = 16384
	for i := range 3 {
		s := StartTCP(t, "--cluster-enabled", "yes", "--cluster-node-timeout", "2000")
		node := s.Client(t)
		if err := node.ClusterAddSlotsRange(ctx, i*slots/3, (i+1)*slots/3-1).Err(); err != nil {
			t.Fatal(err)
		}
		addrs, nodes = append(addrs, s.Addr), append(nodes, node)
	}
	for _, addr := range addrs[1:] {
		host, port, _ := net.SplitHostPort(addr)
		if err := nodes[0].ClusterMeet(ctx, host, port).Err(); err != nil {
			t.Fatal(err)
		}
	}
	for _, node := range nodes {
		for {
			info, err := node.ClusterInfo(ctx).Result()
			if err != nil {
				t.Fatal(err)
			}
			if strings.Contains(info, "cluster_state:ok") && strings.Contains(info, "cluster_known_nodes:3") {
				break
			}
			time.Sleep(20 * time.Millisecond)
		}
	}
	return addrs
}

// tempDir is short: the path of a socket may not have more than some 100 bytes.
func tempDir(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "rd")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

// freePort is one whose cluster bus, 10000 above it, is a port too.
func freePort(t testing.TB) int {
	t.Helper()
	for range 100 {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		port := l.Addr().(*net.TCPAddr).Port
		_ = l.Close()
		if port < 55000 {
			return port
		}
	}
	t.Fatal("no free port below 55000")
	return 0
}

// output keeps what a server said last.
type output struct {
	mu sync.Mutex
	b  []byte
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.b = append(o.b, p...)
	if n := len(o.b) - 16<<10; n > 0 {
		o.b = o.b[n:]
	}
	return len(p), nil
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return string(o.b)
}
