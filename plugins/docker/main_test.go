package main

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/filters"
	"github.com/docker/docker/client"
	"github.com/hashicorp/go-hclog"
	"go.uber.org/goleak"

	"github.com/caisson-run/caisson/plugins/docker/internal/sandboxes"
	"github.com/caisson-run/caisson/sdk/backend"
)

// The test binary is its own plugin. It is told in the environment where to keep
// things, and about the agent that the tests built.
func TestMain(m *testing.M) {
	if os.Getenv(backend.EnvData) != "" {
		agents, agentDir = os.Getenv(envTestAgents), os.Getenv(envTestAgentDir)
		main()
		return
	}
	os.Exit(func() int {
		dir, err := os.MkdirTemp("", "caisson-docker-")
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		defer os.RemoveAll(dir)
		agentDir = filepath.Join(dir, "agent")
		code := m.Run()
		if err := goleak.Find(); err != nil && code == 0 {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		return code
	}())
}

// envTestAgents holds what the linker would have set.
const (
	envTestAgents   = "CAISSON_TEST_DOCKER_AGENTS"
	envTestAgentDir = "CAISSON_TEST_DOCKER_AGENT_DIR"
)

// testHost and testImage are the engine and the image that tests use.
func testHost() string { return os.Getenv("CAISSON_TEST_DOCKER_HOST") }

func testImage() string {
	if image := os.Getenv("CAISSON_TEST_DOCKER_IMAGE"); image != "" {
		return image
	}
	return "caisson/minimal:test"
}

// needEngine returns a client of the tests' engine, which must have the image, or
// skips.
func needEngine(t testing.TB) *client.Client {
	t.Helper()
	missing := func(why string) {
		t.Helper()
		if os.Getenv("CAISSON_CI") != "" {
			t.Fatal(why)
		}
		t.Skip("SKIP: " + why)
	}
	if testHost() == "" {
		missing("CAISSON_TEST_DOCKER_HOST names no engine; eval \"$(tools/engine.sh env)\" after tools/engine.sh up")
	}
	cl, err := client.NewClientWithOpts(client.WithHost(testHost()), client.WithAPIVersionNegotiation())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cl.Close() })
	if _, err := cl.ImageInspect(t.Context(), testImage()); err != nil {
		missing(fmt.Sprintf("the engine of CAISSON_TEST_DOCKER_HOST cannot give the image %s: %v", testImage(), err))
	}
	return cl
}

// buildAgent builds the agent for this machine, once, and returns its digest.
func buildAgent(t testing.TB) (path, sum string) {
	t.Helper()
	path = filepath.Join(agentDir, "linux-"+runtime.GOARCH)
	if _, err := os.Stat(path); err != nil {
		cmd := exec.Command("go", "build", "-trimpath", "-ldflags", "-s -w", "-o", path, "./agent")
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("build the agent: %v\n%s", err, out)
		}
	}
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	digest := sha256.Sum256(b)
	return path, hex.EncodeToString(digest[:])
}

// testConfig is a config for the tests' engine with some members replaced.
func testConfig(t testing.TB, change map[string]any) json.RawMessage {
	t.Helper()
	c := map[string]any{
		"enabled": true, "host": testHost(), "image": testImage(), "pull": "never", "memory_mib": 256, "pids": 128, "pool": 0,
	}
	if runtime := os.Getenv("CAISSON_TEST_DOCKER_RUNTIME"); runtime != "" { // another than the engine's own
		c["runtime"] = runtime
	}
	for k, v := range change {
		if c[k] = v; v == nil {
			delete(c, k)
		}
	}
	raw, err := json.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

// openBackend opens the backend in this process; agent says whether it has one.
func openBackend(t testing.TB, dir string, agent bool, change func(*sandboxes.Options)) *sandboxes.Backend {
	t.Helper()
	mark(t, dir)
	o := sandboxes.Options{Version: version, Dir: dir, Log: hclog.New(&hclog.LoggerOptions{Output: testLog{t}, Level: hclog.Warn})}
	if agent {
		path, sum := buildAgent(t)
		o.Agents = map[string]sandboxes.Agent{runtime.GOARCH: {Path: path, SHA256: sum}}
	}
	if change != nil {
		change(&o)
	}
	b, err := sandboxes.New(o)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func closeBackend(t testing.TB, b *sandboxes.Backend) {
	t.Helper()
	if err := b.Close(); err != nil {
		t.Error(err)
	}
}

type testLog struct{ t testing.TB }

func (l testLog) Write(p []byte) (int, error) {
	l.t.Logf("%s", p)
	return len(p), nil
}

// thisProcess tells its containers from those of others whose tests share the engine.
var thisProcess = strings.ToLower(rand.Text()[:6])

// owner is what the names of a test's installations begin with, and those of its subtests.
func owner(t testing.TB) string {
	mark := thisProcess
	for i, part := range strings.Split(t.Name(), "/") {
		if i < 2 { // further ones are the kit's
			mark += fmt.Sprintf("%06x", crc32.ChecksumIEEE([]byte(part))&0xffffff)
		}
	}
	return mark
}

// mark makes a data directory that of an installation of the test's.
func mark(t testing.TB, dir string) {
	t.Helper()
	f, err := os.OpenFile(filepath.Join(dir, "installation"), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return
	}
	if err == nil {
		_, err = f.WriteString(owner(t) + strings.ToLower(rand.Text()[:8]))
		err = errors.Join(err, f.Close())
	}
	if err != nil {
		t.Fatal(err)
	}
}

// sameContainers fails when the test has other containers at its end than now: whatever
// happens, none is left.
func sameContainers(t testing.TB, cl *client.Client) {
	t.Helper()
	before := listContainers(t, cl)
	t.Cleanup(func() {
		for id, name := range listContainers(t, cl) {
			if before[id] == "" {
				t.Errorf("container %s was left behind", name)
			}
		}
	})
}

// listContainers lists those that the test's backends made.
func listContainers(t testing.TB, cl *client.Client) map[string]string {
	t.Helper()
	all, err := cl.ContainerList(context.Background(), container.ListOptions{
		All: true, Filters: filters.NewArgs(filters.Arg("label", "caisson.owner")),
	})
	if err != nil {
		t.Fatal(err)
	}
	out := make(map[string]string)
	for _, c := range all {
		if strings.HasPrefix(c.Labels["caisson.owner"], owner(t)) {
			out[c.ID] = c.Names[0]
		}
	}
	return out
}
