package main

import (
	"context"
	"encoding/json"
	"os"
	"runtime"
	"testing"
	"time"

	"github.com/caisson-run/caisson/runtimes/process"
	"github.com/caisson-run/caisson/sdk/backend"
	"github.com/caisson-run/caisson/sdk/backend/backendtest"
)

var kit = backendtest.Harness{
	Probe:     backendtest.Python("python3"),
	BadConfig: json.RawMessage(`{"enabled":true,"network":"host"}`),
	Patience:  2 * time.Minute,
	// A command of the engine's takes a good part of a second on a busy machine, and
	// some have to come before the program.
	ShortRun: 3 * time.Second,
}

// TestConformancePlain runs the kit without the agent.
func TestConformancePlain(t *testing.T) {
	cl := needEngine(t)
	if testing.Short() {
		t.Skip("the kit with the agent is enough in short mode")
	}
	sameContainers(t, cl)
	h := kit
	h.Skip = map[string]string{
		"optional/dial_port":       "ports need the agent, and are refused without",
		"optional/detached":        "detached runs need the agent, and are refused without",
		"optional/detached_absent": "detached runs need the agent, and are refused without",
		"optional/watch":           "watching needs the agent, and is refused without",
	}
	h.Probe.Calls = backendtest.NoCalls // they need the agent; see TestCallsNeedTheAgent
	h.New = func(t *testing.T) (backend.Backend, json.RawMessage) {
		b := openBackend(t, t.TempDir(), false, nil)
		t.Cleanup(func() { closeBackend(t, b) })
		return b, testConfig(t, map[string]any{"agent": "off"})
	}
	backendtest.Run(t, h)
}

// TestCallsNeedTheAgent: without it a run that wants to make calls is refused before
// anything runs.
func TestCallsNeedTheAgent(t *testing.T) {
	sameContainers(t, needEngine(t))
	b := openBackend(t, t.TempDir(), false, nil)
	defer closeBackend(t, b)
	if err := b.OpenConfig(t.Context(), "plain", testConfig(t, map[string]any{"agent": "off"})); err != nil {
		t.Fatal(err)
	}
	name := sessionName("calls")
	sb, err := b.Create(t.Context(), backend.CreateSpec{Config: "plain", Session: name, Metadata: backend.Metadata{Session: name}})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := b.Delete(context.Background(), sb.Ref); err != nil {
			t.Error(err)
		}
	}()
	spec := bash(sb.Ref, "echo ran")
	spec.Control = true
	l := &live{}
	if _, err := b.Run(t.Context(), spec, l); backend.KindOf(err) != backend.KindUnsupported || l.started > 0 {
		t.Errorf("err = %v, started %d times", err, l.started)
	}
}

// TestConformance runs the kit with the agent, each way to speak to it, over the
// boundary that hosts use: a subprocess.
func TestConformance(t *testing.T) {
	cl := needEngine(t)
	for _, way := range []string{"exec", "socket"} {
		t.Run(way, func(t *testing.T) {
			if testing.Short() && way != "exec" {
				t.Skip("one way to the agent is enough in short mode")
			}
			sameContainers(t, cl)
			h := kit
			h.New = func(t *testing.T) (backend.Backend, json.RawMessage) {
				return startPlugin(t), testConfig(t, map[string]any{"agent": way, "pool": 2})
			}
			backendtest.Run(t, h)
		})
	}
}

// startPlugin starts this test binary as the plugin that it is, with the agent.
func startPlugin(t *testing.T) backend.Backend {
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	_, sum := buildAgent(t)
	dir := shortDir(t)
	mark(t, dir)
	p, err := process.Start(t.Context(), process.Spec{
		Name: "docker", Path: exe,
		Env: []string{
			backend.EnvData + "=" + dir, envTestAgents + "=" + runtime.GOARCH + ":" + sum, envTestAgentDir + "=" + agentDir,
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Stop(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return p.Backend()
}

// shortDir is a directory whose path leaves room for a socket's.
func shortDir(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "cd")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}
