package agentclient_test

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/client"
	"github.com/docker/docker/pkg/stdcopy"
	"go.uber.org/goleak"

	"github.com/caisson-run/caisson/plugins/docker/internal/agentclient"
	"github.com/caisson-run/caisson/sdk/backend"
)

// What all tests share: an engine, and the agent's program.
var (
	docker  *client.Client
	program []byte
	build   string
	why     string // there is no engine
)

func TestMain(m *testing.M) {
	code, err := prepare(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

func prepare(m *testing.M) (int, error) {
	host := os.Getenv("CAISSON_TEST_DOCKER_HOST")
	if host == "" {
		why = "no Docker engine: set CAISSON_TEST_DOCKER_HOST (tools/engine.sh start)"
		return m.Run(), nil
	}
	dir, err := os.MkdirTemp("", "agent")
	if err != nil {
		return 1, err
	}
	defer os.RemoveAll(dir)
	if program, err = compile(filepath.Join(dir, "agent"), ""); err != nil {
		return 1, err
	}
	sum := sha256.Sum256(program)
	build = hex.EncodeToString(sum[:])
	docker, err = client.NewClientWithOpts(client.WithHost(host), client.WithAPIVersionNegotiation())
	if err != nil {
		return 1, err
	}
	code := m.Run()
	_ = docker.Close()
	if code == 0 {
		if err := goleak.Find(); err != nil {
			return 1, err
		}
	}
	return code, nil
}

// compile builds the agent; mark makes it another build.
func compile(path, mark string) ([]byte, error) {
	cmd := exec.Command("go", "build", "-trimpath", "-ldflags", "-s -w -X main.mark="+mark, "-o", path, "github.com/caisson-run/caisson/plugins/docker/agent")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux", "GOARCH="+runtime.GOARCH)
	if out, err := cmd.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("build the agent: %w\n%s", err, out)
	}
	return os.ReadFile(path)
}

// box is a container with an agent.
type box struct {
	id string
	// build is the agent that belongs there.
	build string
}

// options of a box. Zero members take what a small sandbox has.
type options struct {
	memory, pids int64
	tmpfs        string // of the working directory
}

func newBox(t testing.TB, o options) *box {
	t.Helper()
	if docker == nil {
		if os.Getenv("CAISSON_CI") == "1" {
			t.Fatal(why)
		}
		t.Skip(why)
	}
	image := os.Getenv("CAISSON_TEST_DOCKER_IMAGE")
	if image == "" {
		image = "caisson/minimal:test"
	}
	if o.memory == 0 {
		o.memory = 512 << 20
	}
	if o.pids == 0 {
		o.pids = 256
	}
	ctx := t.Context()
	yes := true
	host := &container.HostConfig{
		Runtime: os.Getenv("CAISSON_TEST_DOCKER_RUNTIME"), // empty is the engine's own
		CapDrop: []string{"ALL"}, CapAdd: agentclient.Capabilities(), SecurityOpt: []string{"no-new-privileges"}, Init: &yes,
		LogConfig: container.LogConfig{Type: "none"},
		Resources: container.Resources{Memory: o.memory, MemorySwap: o.memory, PidsLimit: &o.pids},
	}
	if o.tmpfs != "" {
		host.Tmpfs = map[string]string{backend.DataDir: o.tmpfs}
	}
	made, err := docker.ContainerCreate(ctx, &container.Config{
		Image: image, User: "0:0", Entrypoint: agentclient.HoldCommand(build), Cmd: []string{}, NetworkDisabled: true,
		Labels: map[string]string{"caisson.test": "agent"},
	}, host, nil, nil, "")
	if err != nil {
		t.Fatalf("create a container of %s: %v", image, err)
	}
	b := &box{id: made.ID, build: build}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := docker.ContainerRemove(ctx, b.id, container.RemoveOptions{Force: true, RemoveVolumes: true}); err != nil {
			t.Errorf("remove the container: %v", err)
		}
	})
	b.install(t, build, program)
	if err := docker.ContainerStart(ctx, b.id, container.StartOptions{}); err != nil {
		t.Fatalf("start: %v", err)
	}
	return b
}

// install copies an agent into the container.
func (b *box) install(t testing.TB, build string, program []byte) {
	t.Helper()
	var buf bytes.Buffer
	w := tar.NewWriter(&buf)
	name := strings.TrimPrefix(agentclient.ProgramPath(build), "/")
	for _, h := range []*tar.Header{
		{Name: filepath.Dir(name) + "/", Typeflag: tar.TypeDir, Mode: 0o755},
		{Name: name, Typeflag: tar.TypeReg, Mode: 0o755, Size: int64(len(program))},
	} {
		if err := w.WriteHeader(h); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := w.Write(program); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if err := docker.CopyToContainer(t.Context(), b.id, "/", &buf, container.CopyToContainerOptions{}); err != nil {
		t.Fatalf("copy the agent: %v", err)
	}
}

// hijacked is a hijacked exec whose stdout is read without its framing.
type hijacked struct {
	net.Conn
	out  *io.PipeReader
	stop func()
}

func (h *hijacked) Read(p []byte) (int, error) { return h.out.Read(p) }
func (h *hijacked) Close() error {
	err := h.Conn.Close()
	h.stop()
	return err
}

// dial is a Dialer over an exec of the relay.
func (b *box) dial(ctx context.Context) (io.ReadWriteCloser, error) {
	return b.hijack(ctx, agentclient.RelayCommand(b.build))
}

func (b *box) hijack(ctx context.Context, argv []string) (*hijacked, error) {
	made, err := docker.ContainerExecCreate(ctx, b.id, container.ExecOptions{
		Cmd: argv, User: "0:0", AttachStdin: true, AttachStdout: true, AttachStderr: true,
	})
	if err != nil {
		return nil, err
	}
	a, err := docker.ContainerExecAttach(ctx, made.ID, container.ExecAttachOptions{})
	if err != nil {
		return nil, err
	}
	r, w := io.Pipe()
	done := make(chan struct{})
	go func() {
		defer close(done)
		var said bytes.Buffer
		_, err := stdcopy.StdCopy(w, &said, a.Reader)
		if err == nil && said.Len() > 0 {
			err = fmt.Errorf("the relay says: %s", said.String())
		}
		w.CloseWithError(err)
	}()
	return &hijacked{a.Conn, r, func() { _ = r.Close(); <-done }}, nil
}

// exec runs a command with the engine, as it would be without an agent.
func (b *box) exec(t testing.TB, user string, argv ...string) (stdout string, code int) {
	t.Helper()
	ctx := t.Context()
	made, err := docker.ContainerExecCreate(ctx, b.id, container.ExecOptions{Cmd: argv, User: user, AttachStdout: true, AttachStderr: true})
	if err != nil {
		t.Fatal(err)
	}
	a, err := docker.ContainerExecAttach(ctx, made.ID, container.ExecAttachOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	var out, errs bytes.Buffer
	if _, err := stdcopy.StdCopy(&out, &errs, a.Reader); err != nil {
		t.Fatal(err)
	}
	in, err := docker.ContainerExecInspect(ctx, made.ID)
	if err != nil {
		t.Fatal(err)
	}
	return out.String() + errs.String(), in.ExitCode
}

func (b *box) open(t testing.TB) *agentclient.Client { return b.openWith(t, b.dial) }

func (b *box) openWith(t testing.TB, dial agentclient.Dialer) *agentclient.Client {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	c, err := agentclient.Open(ctx, dial, agentclient.Options{Build: b.build})
	if err != nil {
		t.Fatalf("Open: %v", err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// sandbox is a new box with an open client.
func sandbox(t testing.TB, o options) (*box, *agentclient.Client) {
	b := newBox(t, o)
	return b, b.open(t)
}

// heard is a RunIO that remembers.
type heard struct {
	inputs  map[int]io.Reader
	stdin   io.Reader
	began   int
	stdout  bytes.Buffer
	stderr  bytes.Buffer
	onBegin func()
	onOut   func(all string) error
}

func (h *heard) Input(i int) (io.Reader, error) { return h.inputs[i], nil }
func (h *heard) Stdin() io.Reader               { return h.stdin }
func (h *heard) Started() error {
	h.began++
	if h.onBegin != nil {
		h.onBegin()
	}
	return nil
}

func (h *heard) Stdout(p []byte) error {
	h.stdout.Write(p)
	if h.onOut != nil {
		return h.onOut(h.stdout.String())
	}
	return nil
}
func (h *heard) Stderr(p []byte) error { h.stderr.Write(p); return nil }
func (h *heard) Call(context.Context, backend.ControlCall) (backend.ControlReply, error) {
	return backend.ControlReply{}, io.ErrUnexpectedEOF
}

func ref() backend.Ref { return backend.Ref{Config: "test", ID: "test"} }

// script is a run of a shell script.
func script(text string) backend.RunSpec {
	return backend.RunSpec{
		Ref: ref(), RunID: rand.Text(), Program: backend.Program{File: "main.sh", Source: []byte(text)},
		Steps: []backend.Step{{Argv: []string{"sh", "{dir}/main.sh"}}}, Limits: backend.Limits{Wall: 20 * time.Second},
	}
}

// run runs a spec and checks what its result must be in any case.
func run(t testing.TB, c *agentclient.Client, spec backend.RunSpec) (backend.RunResult, *heard) {
	t.Helper()
	h := &heard{}
	res, err := c.Run(t.Context(), spec, h)
	if err != nil {
		t.Fatalf("Run: %v", err)
	}
	if err := spec.CheckResult(res); err != nil {
		t.Errorf("result: %v", err)
	}
	if h.began != 1 {
		t.Errorf("started %d times", h.began)
	}
	return res, h
}

// goesOn checks that a sandbox works.
func goesOn(t testing.TB, c *agentclient.Client) {
	t.Helper()
	if res, h := run(t, c, script("echo on; exit 3")); res.Stop != backend.StopExit || res.ExitCode != 3 || h.stdout.String() != "on\n" {
		t.Errorf("the next run: %+v, stdout %q, stderr %q", res, h.stdout.String(), h.stderr.String())
	}
}

// eventually asks until ok, and reports whether it came to be. What takes a moment takes a
// busy machine longer.
func eventually(ok func() bool) bool {
	for end := time.Now().Add(time.Minute); !ok(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			return false
		}
	}
	return true
}

// left returns the processes in the container that run as programs do.
func (b *box) left(t testing.TB) string {
	t.Helper()
	out, _ := b.exec(t, "0:0", "sh", "-c", `for p in /proc/[0-9]*; do u=$(grep -s ^Uid: $p/status | cut -f2); [ "${u:-0}" -ge 20000 ] && cat $p/status | head -3; done; true`)
	return out
}
