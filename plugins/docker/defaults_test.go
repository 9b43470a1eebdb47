package main

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/client"

	"github.com/caisson-run/caisson/sdk/backend"
)

// transports are how sandboxes are worked in.
var transports = []string{"off", "exec", "socket"}

// eachWay runs a test with the agent, each way, and without.
func eachWay(t *testing.T, test func(t *testing.T, cl *client.Client, way string)) {
	cl := needEngine(t)
	for _, way := range transports {
		t.Run(way, func(t *testing.T) {
			sameContainers(t, cl)
			test(t, cl, way)
		})
	}
}

// one is a backend with one open config "c".
func one(t testing.TB, way string, change map[string]any) backend.Backend {
	t.Helper()
	b := openBackend(t, shortDir(t), way != "off", nil)
	t.Cleanup(func() { closeBackend(t, b) })
	if change == nil {
		change = map[string]any{}
	}
	change["agent"] = way
	if err := b.OpenConfig(t.Context(), "c", testConfig(t, change)); err != nil {
		t.Fatal(err)
	}
	return b
}

func specOf(session string) backend.CreateSpec {
	return backend.CreateSpec{
		Config: "c", Session: session,
		Metadata: backend.Metadata{Deployment: "d", Config: "c", Session: session, Tenant: "t", Origin: "exec"},
	}
}

func mustCreate(t testing.TB, b backend.Backend, spec backend.CreateSpec) backend.Sandbox {
	t.Helper()
	sb, err := b.Create(t.Context(), spec)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = b.Delete(context.Background(), sb.Ref) })
	return sb
}

// inspect asks the engine about the container of a label.
func inspect(t testing.TB, cl *client.Client, session string) container.InspectResponse {
	t.Helper()
	for id, name := range listContainers(t, cl) {
		if strings.HasSuffix(name, "_"+session) {
			got, err := cl.ContainerInspect(t.Context(), id)
			if err != nil {
				t.Fatal(err)
			}
			return got
		}
	}
	t.Fatalf("no container of session %s", session)
	return container.InspectResponse{}
}

func noAddress(n *container.NetworkSettings) bool {
	for _, e := range n.Networks {
		if e != nil && (e.IPAddress != "" || e.GlobalIPv6Address != "") {
			return false
		}
	}
	return len(n.Ports) == 0
}

// TestDefaults asserts what the engine reports of a running container, not what it
// was asked for.
func TestDefaults(t *testing.T) {
	eachWay(t, func(t *testing.T, cl *client.Client, way string) {
		t.Setenv("CAISSON_TEST_SECRET", "leaked")
		b := one(t, way, map[string]any{"pool": 0})
		sb := mustCreate(t, b, specOf("defaults-"+way))
		got := inspect(t, cl, sb.ID)
		h := got.HostConfig
		for what, ok := range map[string]bool{
			"runs":                  got.State.Running,
			"not privileged":        !h.Privileged,
			"no new privileges":     slices.Equal(h.SecurityOpt, []string{"no-new-privileges"}),
			"all capabilities gone": slices.Equal(h.CapDrop, []string{"ALL"}),
			"init":                  h.Init != nil && *h.Init,
			"memory":                h.Memory == 256<<20 && h.MemorySwap == h.Memory,
			"processors":            h.NanoCPUs > 0 && h.NanoCPUs <= 2e9,
			"processes":             h.PidsLimit != nil && *h.PidsLimit == 128,
			"no network":            string(h.NetworkMode) == "none" && got.Config.NetworkDisabled,
			"no network address":    got.NetworkSettings == nil || noAddress(got.NetworkSettings),
			"no bind":               len(h.Binds) == 0 && len(h.VolumesFrom) == 0,
			"no device":             len(h.Devices) == 0 && len(h.DeviceRequests) == 0,
			"own process ids":       h.PidMode == "",
			"own users":             h.UsernsMode == "",
			"own host name":         h.UTSMode == "" && got.Config.Hostname == "sandbox",
			"own memory between":    h.IpcMode == "private",
			"own control groups":    h.CgroupnsMode == "private",
			"nothing logged":        h.LogConfig.Type == "none",
			"no restart":            h.RestartPolicy.Name == "" || h.RestartPolicy.Name == "no",
			"no check":              got.Config.Healthcheck == nil || slices.Equal(got.Config.Healthcheck.Test, []string{"NONE"}),
			"no profile of ours":    got.AppArmorProfile != "unconfined",
			"default masks":         len(h.MaskedPaths) > 0 && len(h.ReadonlyPaths) > 0,
			"nothing published":     len(h.PortBindings) == 0 && !h.PublishAllPorts,
		} {
			if !ok {
				t.Errorf("%s: is not so: %+v", what, h)
			}
		}
		switch wantMounts := map[bool]int{true: 1}[way == "socket"]; {
		case len(got.Mounts) != wantMounts:
			t.Errorf("mounts %+v", got.Mounts)
		case wantMounts == 1 && got.Mounts[0].Destination != "/.caisson/host":
			t.Errorf("mounted at %s", got.Mounts[0].Destination)
		}
		wantCaps := []string{}
		if way != "off" {
			wantCaps = []string{"KILL", "SETGID", "SETPCAP", "SETUID"}
		}
		var caps []string
		for _, c := range h.CapAdd {
			caps = append(caps, strings.TrimPrefix(c, "CAP_"))
		}
		slices.Sort(caps)
		if !slices.Equal(caps, wantCaps) {
			t.Errorf("capabilities %q, want %q", caps, wantCaps)
		}
		for _, e := range got.Config.Env {
			if strings.Contains(e, "leaked") {
				t.Errorf("the plugin's environment is in the container's: %s", e)
			}
		}
		// What a program sees, as the kernel tells it.
		res, err := b.Exec(t.Context(), backend.ExecRequest{Ref: sb.Ref, Argv: []string{
			"grep", "-E", "^(Uid|CapInh|CapPrm|CapEff|CapBnd|CapAmb|NoNewPrivs|Seccomp):", "/proc/self/status",
		}})
		if err != nil {
			t.Fatal(err)
		}
		seen := make(map[string]string)
		for line := range strings.Lines(string(res.Stdout)) {
			if k, v, ok := strings.Cut(line, ":"); ok {
				seen[k] = strings.TrimSpace(v)
			}
		}
		for _, c := range []string{"CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"} {
			if seen[c] != "0000000000000000" {
				t.Errorf("a program has %s %s", c, seen[c])
			}
		}
		if seen["NoNewPrivs"] != "1" || seen["Seccomp"] != "2" || strings.HasPrefix(seen["Uid"], "0\t") || seen["Uid"] == "" {
			t.Errorf("a program runs with %v", seen)
		}
		// Its network is a loopback and nothing else.
		res, err = b.Exec(t.Context(), backend.ExecRequest{Ref: sb.Ref, Shell: true, Argv: []string{
			`ls /sys/class/net; tail -n +2 /proc/net/route | wc -l`,
		}})
		if err != nil || strings.Join(strings.Fields(string(res.Stdout)), " ") != "lo 0" {
			t.Errorf("the network is %q: %v", res.Stdout, err)
		}
	})
}

// TestNoWayToRoot: what is the backend's own in a container is root's.
func TestNoWayToRoot(t *testing.T) {
	eachWay(t, func(t *testing.T, cl *client.Client, way string) {
		b := one(t, way, map[string]any{"pool": 1})
		sb := mustCreate(t, b, specOf("root-"+way))
		for _, script := range []string{
			"echo x > /.caisson/record.json", "mv /.caisson /gone", "rm -rf /.caisson/record.json /.caisson/agent*; test -e /.caisson",
			"cat /.caisson/record.json", "mkdir /.caisson/new", "ln -s /etc/passwd /.caisson/record.json", "su -c id", "kill -9 1",
		} {
			res, err := b.Exec(t.Context(), backend.ExecRequest{Ref: sb.Ref, Shell: true, Argv: []string{script}})
			if err != nil {
				t.Fatal(err)
			}
			if script != "rm -rf /.caisson/record.json /.caisson/agent*; test -e /.caisson" && res.ExitCode == 0 {
				t.Errorf("%q succeeds: %s", script, res.Stdout)
			}
		}
		if got, err := b.Get(t.Context(), sb.Ref); err != nil || got.Metadata.Tenant != "t" || got.State != backend.StateRunning {
			t.Errorf("after that: %+v, %v", got, err)
		}
	})
}
