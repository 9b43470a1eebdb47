package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/caisson-run/caisson/plugins/internal/controlfake"
	"github.com/caisson-run/caisson/plugins/internal/envdfake"
	"github.com/caisson-run/caisson/plugins/internal/remotetest"
	"github.com/caisson-run/caisson/runtimes/process"
	"github.com/caisson-run/caisson/sdk/backend"
	"github.com/hashicorp/go-hclog"
)

// TestNoSecretLeaks plants secrets in everything that may hold one, lets as much as
// possible fail, by servers that echo what they were sent, and looks at every error,
// the plugin's log, its arguments and what it keeps.
func TestNoSecretLeaks(t *testing.T) {
	const header, password = "header_canary8412", "password_canary9071"
	s := remotetest.Stand(t, controlfake.E2B, func(o *controlfake.Options) {
		o.Violation = func(string) {} // failing is the point
	})
	log, dir := &remotetest.Buffer{}, t.TempDir()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	p, err := process.Start(t.Context(), process.Spec{
		Name: name, Path: exe, Env: []string{backend.EnvData + "=" + dir},
		Log: hclog.New(&hclog.LoggerOptions{Level: hclog.Trace, Output: log}),
	})
	if err != nil {
		t.Fatal(err)
	}
	stopped := false
	stop := func() {
		if !stopped {
			stopped = true
			if err := p.Stop(context.Background()); err != nil {
				t.Error(err)
			}
		}
	}
	defer stop()
	arguments := processArguments(t)
	b := p.Backend()
	raw := remotetest.Config(s, map[string]any{
		"registry_username": "u", "registry_password": password, "build": map[string]any{"name": "caisson", "image": "i"},
	})
	ctx := t.Context()
	if err := b.OpenConfig(ctx, "main", raw); err != nil {
		t.Fatal(err)
	}
	spec := remotetest.Spec("s")
	spec.Network = backend.Network{
		Mode: backend.NetworkClosed, Allow: []string{"api.example.com"},
		Rules: []byte(`{"api.example.com":[{"transform":{"headers":{"Authorization":"` + header + `"}}}]}`),
	}
	sb, err := b.Create(ctx, spec)
	if err != nil {
		t.Fatal(err)
	}
	access, traffic := s.Tokens(sb.ID)
	secrets := []string{remotetest.Key, header, password, access, traffic}
	for _, secret := range secrets {
		if secret == "" {
			t.Fatal("a secret is missing: the test shows nothing")
		}
	}
	checked := 0
	check := func(what string, err error) {
		t.Helper()
		if err == nil {
			return
		}
		checked++
		text := fmt.Sprintf("%v %+v %#v", err, err, err)
		for e := err; e != nil; e = errors.Unwrap(e) {
			text += fmt.Sprintf(" %#v", e)
		}
		for _, secret := range secrets {
			if strings.Contains(text, secret) {
				t.Errorf("%s: the error holds a secret (%.8s…): %v", what, secret, err)
			}
		}
	}
	templates, _ := b.(backend.TemplateCatalog)
	snapshots, _ := b.(backend.Snapshotter)
	keep, _ := b.(backend.KeepAliver)
	forms := []string{`{"code":400,"message":%q}`, `{"code":%q,"message":%[1]q,"error_code":%[1]q}`, "%s", "<html>%s</html>", `{"sandboxID":%q}`}
	for _, form := range forms {
		for _, status := range []int{200, 302, 400, 404, 500} {
			what := fmt.Sprint(status, " ", form)
			// A server repeats what it was sent, and what it issued.
			fault := func(path string, told ...string) envdfake.Fault {
				echo := strings.Join(told, " ")
				f := envdfake.Fault{Path: path, Status: status, Body: fmt.Sprintf(form, echo), Times: -1, Header: map[string]string{"X-Echo": echo}}
				if status == http.StatusFound {
					f.Header["Location"] = s.API + "/" + remotetest.Key
				}
				return f
			}
			quick, cancel := context.WithTimeout(ctx, 2*time.Second)
			// What answers that the sandbox is gone makes the plugin forget its tokens:
			// it is told them again before the next call.
			told := func() {
				t.Helper()
				s.Script.Clear()
				if _, err := b.Connect(ctx, sb.Ref); err != nil {
					t.Fatal(err)
				}
				s.Script.Add(fault("/sandboxes", remotetest.Key, header))
				s.Script.Add(fault("/sandboxes/"+sb.ID+"*", remotetest.Key, access, traffic))
			}
			told()
			bad := spec
			bad.Session = "other"
			_, err := b.Create(quick, bad)
			check("Create "+what, err)
			_, err = b.Get(quick, sb.Ref)
			check("Get "+what, err)
			told()
			_, err = keep.KeepAlive(quick, sb.Ref, time.Hour)
			check("KeepAlive "+what, err)
			s.Script.Add(fault("*", remotetest.Key, password))
			_, err = b.List(quick, backend.ListFilter{Config: "main"})
			check("List "+what, err)
			check("Delete "+what, b.Delete(quick, backend.Ref{Config: "main", ID: "iaaaaaaaaaaaaaaaaaaaa"}))
			_, err = templates.EnsureTemplate(quick, "main")
			check("EnsureTemplate "+what, err)
			_, err = snapshots.ListSnapshots(quick, "main", nil)
			check("ListSnapshots "+what, err)
			report, err := b.Probe(quick, raw)
			check("Probe "+what, errors.Join(err, errors.New(report.Detail)))
			told()
			s.Script.Clear()
			s.GatewayScript.Add(fault("*", access, traffic))
			_, err = b.Stat(quick, sb.Ref, "/mnt/data")
			check("Stat "+what, err)
			_, err = b.Exec(quick, backend.ExecRequest{Ref: sb.Ref, Argv: []string{"true"}})
			check("Exec "+what, err)
			s.GatewayScript.Clear()
			cancel()
		}
	}
	if checked < 200 {
		t.Errorf("only %d errors were looked at", checked)
	}
	// Configs that are wrong.
	for _, bad := range []string{
		`{"api_key":"` + remotetest.Key + `"`, `{"api_key":["` + remotetest.Key + `"]}`, `{"api_key":"` + remotetest.Key + `","api_url":"https://` + remotetest.Key + `@x"}`,
	} {
		check("OpenConfig", b.OpenConfig(ctx, "bad", json.RawMessage(bad)))
	}
	stop()
	if log.Holds(secrets...) {
		t.Error("the log holds a secret")
	}
	for _, secret := range secrets {
		if strings.Contains(arguments, secret) {
			t.Error("the plugin's arguments hold a secret")
		}
	}
	// What is kept is readable for the plugin only, and holds no key of an account.
	_ = filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := os.ReadFile(path)
		info, _ := d.Info()
		if bytes.Contains(text, []byte(remotetest.Key)) || info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s, mode %v, holds the key or is open", path, info.Mode())
		}
		return err
	})
}

// processArguments returns the arguments and the environment of this process's
// children, as anybody on the machine may see the former.
func processArguments(t *testing.T) string {
	t.Helper()
	out, err := exec.Command("ps", "-o", "args", "--ppid", fmt.Sprint(os.Getpid())).CombinedOutput()
	if err != nil {
		t.Logf("no list of processes: %v", err)
	}
	return string(out)
}
