package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// A configuration that got lost, was cut off or cannot be read changes nothing, and one
// that asks fewer policies is taken, and says so loudly.
func TestReloadFailsClosed(t *testing.T) {
	t.Parallel()
	p := newPlace(t, "CODE_EXEC_FEE_CENTS=0", "CODE_EXEC_API_KEY="+testKey)
	installed := t.TempDir()
	smallPolicy(t, filepath.Join(installed, "small"), "1.0.0", "")
	const whole = "drain: 7s\nqueue: {waiting: 9}\npolicies: [{plugin: small}, {plugin: limits, config: {languages: [py]}}]\n"
	file := p.config(t, whole)
	s := p.serve(t, "--config", file, "--plugins", plugins, "--plugins", installed).ready(t)
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	reload := func() result { return p.run(t, "", p.flags("reload")...) } // the server reads the file, not the command
	asked := func() string { return p.run(t, "", p.flags("policy", "decisions", "-n", "1")...).stdout }
	guarded := func(after string) {
		t.Helper()
		s.python(t, "print(1)")
		if d := asked(); !strings.Contains(d, "small") {
			t.Errorf("after %s the chain is another: %s", after, d)
		}
	}
	for name, text := range map[string]string{
		"nothing": "", "only comments": "# policies: [{plugin: small}]\n", "cut off in a list": whole[:strings.Index(whole, "small")],
		"cut off in a key": whole[:strings.Index(whole, "icies")],
	} {
		write(text)
		if r := reload(); r.code != 1 || r.stdout != "" || r.stderr == "" || strings.Contains(r.stderr, "restart") {
			t.Errorf("%s: %+v", name, r)
		}
		guarded(name)
	}
	write("")
	s.signal(t, syscall.SIGHUP)
	s.logs(t, "configuration not reloaded, what was in force stays: error=\""+file+": the configuration is empty")
	guarded("SIGHUP")
	for name, place := range map[string]func() error{
		"absent":            func() error { return nil },
		"a directory":       func() error { return os.Mkdir(file, 0o700) },
		"a link to nothing": func() error { return os.Symlink(filepath.Join(p.tmp, "absent"), file) },
		"a pipe":            func() error { return syscall.Mkfifo(file, 0o600) },
		"closed to us": func() error {
			if os.Geteuid() == 0 { // whom no mode keeps out: it is whole, and changes nothing
				return os.WriteFile(file, []byte("drain: 7s: 8\n"), 0o600)
			}
			return os.WriteFile(file, []byte("{}"), 0)
		},
	} {
		if err := os.Remove(file); err != nil {
			t.Fatal(err)
		}
		if err := place(); err != nil {
			t.Fatal(err)
		}
		if r := reload(); r.code != 1 || r.stdout != "" {
			t.Errorf("%s: %+v", name, r)
		}
		guarded(name)
		if name == "absent" {
			write("")
		}
	}
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	// What runs is no change, and needs no restart.
	write(whole)
	if r := reload(); r.code != 0 || r.stdout != "" {
		t.Errorf("the file that runs: %+v", r)
	}
	write(strings.Replace(whole, "7s", "8s", 1))
	for range 2 { // it is still true
		if r := reload(); r.code != 0 || r.stdout != "drain: takes effect after a restart\n" {
			t.Errorf("another drain: %+v", r)
		}
	}
	write(whole)
	if r := reload(); r.code != 0 || r.stdout != "" {
		t.Errorf("the drain that runs: %+v", r)
	}
	// Fewer policies are the operator's to choose, seen by everybody.
	for _, step := range []struct{ text, warning string }{
		{"drain: 7s\nqueue: {waiting: 9}\n", "policies: small is not asked any more"},
		{whole, ""},
		{"drain: 7s\nqueue: {waiting: 9}\npolicies: []\n", "policies: the chain is empty, nothing judges requests any more"},
	} {
		write(step.text)
		r := reload()
		if r.code != 0 || !strings.Contains(r.stdout, step.warning) || strings.Contains(r.stdout, "restart") {
			t.Errorf("%q: %+v", step.text, r)
		}
		if step.warning != "" {
			s.logs(t, "[WARN]  caisson.host: "+step.warning)
		}
	}
	s.stop(t)
}
