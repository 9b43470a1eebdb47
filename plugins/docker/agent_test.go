package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/client"
	"github.com/docker/docker/pkg/stdcopy"

	"github.com/caisson-run/caisson/plugins/docker/internal/sandboxes"
	"github.com/caisson-run/caisson/sdk/backend"
)

// asRoot runs a command in a container past the backend.
func asRoot(t testing.TB, cl *client.Client, id string, argv ...string) string {
	t.Helper()
	made, err := cl.ContainerExecCreate(t.Context(), id, container.ExecOptions{User: "0:0", Cmd: argv, AttachStdout: true, AttachStderr: true})
	if err != nil {
		t.Fatal(err)
	}
	at, err := cl.ContainerExecAttach(t.Context(), made.ID, container.ExecAttachOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer at.Close()
	var out strings.Builder
	if _, err := stdcopy.StdCopy(&out, &out, at.Reader); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

// TestAgentIsReplaced: a sandbox survives the end of its agent, the loss of its program,
// and one that is of another build.
func TestAgentIsReplaced(t *testing.T) {
	cl := needEngine(t)
	for _, way := range []string{"exec", "socket"} {
		t.Run(way, func(t *testing.T) {
			sameContainers(t, cl)
			dir := shortDir(t)
			config := testConfig(t, map[string]any{"agent": way})
			open := func(change func(*sandboxes.Options)) *sandboxes.Backend {
				b := openBackend(t, dir, true, change)
				if err := b.OpenConfig(t.Context(), "c", config); err != nil {
					t.Fatal(err)
				}
				return b
			}
			b := open(nil)
			sb, err := b.Create(t.Context(), specOf(sessionName("agent")))
			if err != nil {
				t.Fatal(err)
			}
			write(t, b, sb.Ref, dataFile, "kept")
			id := inspect(t, cl, sb.ID).ID
			works := func(b backend.Backend, when string) {
				t.Helper()
				await(t, "work "+when, func() bool { _, err := b.Stat(t.Context(), sb.Ref, dataFile); return err == nil })
				if res, l := run(t, b, bash(sb.Ref, "cat kept.txt; echo x >>new.txt")); l.stdout.String() != "kept" || len(res.Changed) != 1 {
					t.Errorf("%s: %+v, %q %q", when, res, l.stdout.String(), l.stderr.String())
				}
				// Only the agent knows of detached runs: nothing fell back.
				if err := b.(backend.DetachedRunner).KillRun(t.Context(), sb.Ref, "none"); backend.KindOf(err) != backend.KindNotFound {
					t.Errorf("%s: without the agent: %v", when, err)
				}
			}
			works(b, "at first")
			kill := `for p in /proc/[0-9]*; do case "$(tr '\0' ' ' <$p/cmdline)" in /.caisson/agent-*hold*) ;; /.caisson/agent-*) kill -9 "${p#/proc/}";; esac; done`
			asRoot(t, cl, id, "sh", "-c", kill)
			works(b, "after the agent was killed")
			asRoot(t, cl, id, "sh", "-c", "rm -f /.caisson/agent-*; "+kill)
			works(b, "after its program was removed")
			closeBackend(t, b)

			b = open(func(o *sandboxes.Options) { o.Agents = otherAgent(t) })
			works(b, "with another build")
			if err := b.Delete(t.Context(), sb.Ref); err != nil {
				t.Error(err)
			}
			closeBackend(t, b)
		})
	}
}

// otherAgent is the agent as another build would have it.
func otherAgent(t testing.TB) map[string]sandboxes.Agent {
	t.Helper()
	path := filepath.Join(agentDir, "other")
	cmd := exec.Command("go", "build", "-trimpath", "-ldflags", "-s -w -buildid=other", "-o", path, "./agent")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("build the agent: %v\n%s", err, out)
	}
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(b)
	_, first := buildAgent(t)
	if hex.EncodeToString(sum[:]) == first {
		t.Fatal("the other build is the same")
	}
	return map[string]sandboxes.Agent{runtime.GOARCH: {Path: path, SHA256: hex.EncodeToString(sum[:])}}
}

// TestForeignAgentIsRefused: a program that is not what was built goes into no
// container; sandboxes do without.
func TestForeignAgentIsRefused(t *testing.T) {
	cl := needEngine(t)
	sameContainers(t, cl)
	path := filepath.Join(t.TempDir(), "agent")
	if err := os.WriteFile(path, []byte("#!/bin/sh\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	b := openBackend(t, shortDir(t), true, func(o *sandboxes.Options) {
		a := o.Agents[runtime.GOARCH]
		a.Path = path
		o.Agents = map[string]sandboxes.Agent{runtime.GOARCH: a}
	})
	defer closeBackend(t, b)
	if err := b.OpenConfig(t.Context(), "c", testConfig(t, nil)); err != nil {
		t.Fatal(err)
	}
	sb := mustCreate(t, b, specOf(sessionName("foreign")))
	got := inspect(t, cl, sb.ID)
	if len(got.HostConfig.CapAdd) > 0 || got.Config.Labels["caisson.agent"] != "" {
		t.Errorf("a container without an agent has the capabilities %v", got.HostConfig.CapAdd)
	}
	if _, l := run(t, b, bash(sb.Ref, "echo on")); l.stdout.String() != "on\n" {
		t.Errorf("stdout %q", l.stdout.String())
	}
	if err := b.KillRun(t.Context(), sb.Ref, "none"); backend.KindOf(err) != backend.KindUnsupported {
		t.Errorf("what needs the agent: %v", err)
	}
	if err := b.Delete(context.Background(), sb.Ref); err != nil {
		t.Error(err)
	}
}
