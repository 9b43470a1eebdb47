package e2e

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/caisson-run/caisson/host/cmd/caisson/internal/admin"
)

// smallPolicy writes a version of the policy "small" to dir. Of 1000 units of fuel it
// passes its selftest, and can decide nothing.
func smallPolicy(t *testing.T, dir, version, more string) string {
	t.Helper()
	code, err := os.ReadFile(filepath.FromSlash("../../../../runtimes/wasm/testdata/assemblyscript/policy.wasm"))
	if err != nil {
		t.Fatal(err)
	}
	text := "schema: 1\nname: small\nversion: " + version + "\nkind: policy\nruntime: wasm\nprotocol: 1\npath: policy.wasm\nimports: [log]\n" + more
	if err := errors.Join(os.MkdirAll(dir, 0o755),
		os.WriteFile(filepath.Join(dir, "plugin.yaml"), []byte(text), 0o644),
		os.WriteFile(filepath.Join(dir, "policy.wasm"), code, 0o644)); err != nil {
		t.Fatal(err)
	}
	return dir
}

// askToSwap sends the request for a swap to the admin socket. Closing the connection
// is all that is left to do with it.
func (s *server) askToSwap(t *testing.T, name, dir string, watchMS int) net.Conn {
	t.Helper()
	c, err := net.Dial("unix", filepath.Join(s.data, admin.SocketFile))
	if err != nil {
		t.Fatal(err)
	}
	body := fmt.Sprintf(`{"dir":%q,"watch_ms":%d}`, dir, watchMS)
	if _, err := fmt.Fprintf(c, "POST /plugins/%s/swap HTTP/1.1\r\nHost: caisson\r\nContent-Length: %d\r\n\r\n%s", name, len(body), body); err != nil {
		t.Fatal(err)
	}
	return c
}

// An operator whose connection breaks while a swap is watched: a version that fails is
// sent back all the same, and everybody can read so. A server that stops does not wait
// for a watch.
func TestSwapWithoutItsOperator(t *testing.T) {
	t.Parallel()
	p := newPlace(t, "CODE_EXEC_FEE_CENTS=0", "CODE_EXEC_API_KEY="+testKey)
	installed := t.TempDir()
	smallPolicy(t, filepath.Join(installed, "small"), "1.0.0", "")
	file := p.config(t, "policies: [{plugin: small}]\n")
	s := p.serve(t, "--config", file, "--plugins", plugins, "--plugins", installed).ready(t)
	inspect := func() string {
		return p.run(t, "", append(p.flags("plugin", "inspect"), "small")...).stdout
	}
	// A swap that is prepared is under way too, and given up when nobody waits for it.
	watched := func(from, to string) {
		t.Helper()
		s.eventually(t, to+" is watched", func() bool {
			text := inspect()
			return strings.Contains(text, "from "+from+" to "+to+", under way") && slices.Contains(strings.Fields(text), to)
		})
	}
	c := s.askToSwap(t, "small", smallPolicy(t, t.TempDir(), "2.0.0", "limits: {fuel: 1000}\n"), 3600_000)
	watched("1.0.0", "2.0.0")
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	s.must(t, http.MethodPost, "/v1/exec", s.key, program("print(1)"))
	s.eventually(t, "it is sent back", func() bool { return strings.Contains(inspect(), "rolled back: failed while it was watched") })
	s.python(t, "print(1)")
	s.logs(t, "outcome=rolled_back")

	c = s.askToSwap(t, "small", smallPolicy(t, t.TempDir(), "2.5.0", ""), 3600_000)
	watched("1.0.0", "2.5.0")
	if r := p.run(t, "", append(p.flags("plugin", "accept"), "small")...); r.code != 0 || r.stdout != "small 2.5.0 is ready\n" {
		t.Errorf("accept: %+v", r)
	}
	s.eventually(t, "it stays", func() bool { return strings.Contains(inspect(), "switched: the watch was cut short: accepted") })
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}

	c = s.askToSwap(t, "small", smallPolicy(t, t.TempDir(), "3.0.0", ""), 3600_000)
	defer c.Close()
	watched("2.5.0", "3.0.0")
	s.signal(t, syscall.SIGTERM)
	<-s.exited
	if code := s.cmd.ProcessState.ExitCode(); code != 0 || !strings.Contains(s.stderr.String(), "the watch was cut short") {
		t.Errorf("exit status %d", code)
	}
}
