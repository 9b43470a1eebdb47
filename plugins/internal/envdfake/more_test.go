package envdfake_test

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"

	"github.com/caisson-run/caisson/plugins/internal/envd/envdpb/filesystempb"
	"github.com/caisson-run/caisson/plugins/internal/envd/envdpb/processpb"
	"github.com/caisson-run/caisson/plugins/internal/envdfake"
)

// TestRefusedUploads: what is refused to who reads is refused to who writes.
func TestRefusedUploads(t *testing.T) {
	d := newDaemon(t, envdfake.Options{})
	d.allowed = []string{"without an access token"}
	for _, row := range []struct {
		name, query string
		headers     []string
		holds       string
	}{
		{"unknown account", "&username=who", nil, "error looking up user"},
		{"unknown Basic account", "", []string{"Authorization", "Basic d2hvOg=="}, `{"code":"unauthenticated","message":"invalid username: 'who'"}`},
		{"wrong token", "", []string{"X-Access-Token", "wrong"}, "access token present in header but does not match"},
		{"bad signature", "&signature=v1_x", []string{"X-Access-Token", "wrong"}, "access token present in header but does not match"},
	} {
		body, kind := file("x=y")
		status, _, text := d.ask("POST", "/files?path=/mnt/f"+row.query, body, append([]string{"Content-Type", kind}, row.headers...)...)
		if status != 401 || !strings.Contains(text, row.holds) {
			t.Errorf("%s: %d %s, want 401 with %s", row.name, status, text, row.holds)
		}
	}
	if status, _, text := d.ask("GET", "/files?path=/proc/self/status", nil); status != 500 || !strings.Contains(text, "seeker can't seek") {
		t.Errorf("what cannot be sought in: %d %s", status, text)
	}
	if _, err := os.Stat(d.Path("/mnt/f")); err == nil {
		t.Error("a refused upload was written")
	}
}

// TestAccounts: an account decides about homes and names, and is no check of permissions.
func TestAccounts(t *testing.T) {
	d := newDaemon(t, envdfake.Options{})
	make := func(path, user string) error {
		r := connect.NewRequest(&filesystempb.MakeDirRequest{Path: path})
		r.Header().Set("Authorization", user)
		_, err := d.files.MakeDir(t.Context(), r)
		return err
	}
	if err := os.Mkdir(d.Path("/mnt/roots"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := make("/mnt/roots/daemons", "Basic ZGFlbW9uOg=="); err != nil {
		t.Errorf("another account, below a directory of root's: %v", err)
	}
	if err := make("/mnt/x", "Basic d2hvOg=="); connect.CodeOf(err) != connect.CodeUnauthenticated {
		t.Errorf("an account that is none: %v", err)
	}
}

// TestGroups: a program is in the daemon's process group, one on a terminal leads its
// own, and one that was started through setsid does too.
func TestGroups(t *testing.T) {
	d := newDaemon(t, envdfake.Options{})
	const groups = `read -r pid name state parent group session rest </proc/$$/stat; echo "$pid $group $session"`
	onTerminal := shell(groups)
	onTerminal.Stdin, onTerminal.Pty = nil, &processpb.PTY{Size: &processpb.PTY_Size{Cols: 80, Rows: 24}}
	for _, row := range []struct {
		name  string
		msg   *processpb.StartRequest
		leads bool
	}{
		{"plain", shell(groups), false},
		{"terminal", onTerminal, true},
		{"setsid", command("/usr/bin/setsid", "/bin/sh", "-c", groups), true},
	} {
		p, err := d.start(t.Context(), row.msg)
		if err != nil {
			t.Fatal(err)
		}
		stdout, _, _, err := p.wait()
		var self, group, session uint32
		if _, scanErr := fmt.Sscan(stdout, &self, &group, &session); err != nil || scanErr != nil {
			t.Fatalf("%s: %q, %v", row.name, stdout, err)
		}
		if leads := group == self && session == self; leads != row.leads || self != p.pid {
			t.Errorf("%s: program %d, told as %d, in group %d of session %d", row.name, self, p.pid, group, session)
		}
	}
	p, err := d.start(t.Context(), command(""))
	if err != nil {
		t.Fatal(err)
	}
	if _, _, end, err := p.wait(); err != nil || end.GetExitCode() != 127 {
		t.Errorf("no command: %v, %v", end, err)
	}
}

// TestFullPipe: input waits while nobody reads it.
func TestFullPipe(t *testing.T) {
	d := newDaemon(t, envdfake.Options{})
	send := func(script string, size int, patience time.Duration) error {
		msg := shell(script)
		msg.Stdin = nil
		p, err := d.start(t.Context(), msg)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		_, err = d.process.SendInput(ctx, connect.NewRequest(&processpb.SendInputRequest{Process: pid(p.pid), Input: &processpb.ProcessInput{
			Input: &processpb.ProcessInput_Stdin{Stdin: make([]byte, size)},
		}}))
		return err
	}
	if err := send("sleep 600", 300_000, 500*time.Millisecond); connect.CodeOf(err) != connect.CodeDeadlineExceeded {
		t.Errorf("300 kB that nobody reads: %v", err)
	}
	if err := send("cat >/dev/null", 200_000, time.Minute); err != nil {
		t.Errorf("200 kB that are read: %v", err)
	}
}
