package backendconfig

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/caisson-run/caisson/internal/hostbackend"
	"github.com/caisson-run/caisson/manifest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func described(t testing.TB, file string) *Description {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	m, err := manifest.Parse(file, text)
	if err != nil {
		t.Fatal(err)
	}
	d, err := Describe(m)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// remote is the manifest of a plugin with everything; plain one without notes.
func remote(t testing.TB) *Description { return described(t, "testdata/remote.yaml") }
func plain(t testing.TB) *Description  { return described(t, "testdata/plain.yaml") }

func TestDescribe(t *testing.T) {
	for _, c := range []struct {
		d                          *Description
		required, secret, identity []string
	}{
		{remote(t), []string{"api_key", "template"}, []string{"api_key"}, []string{"allow_private", "api_key", "api_url"}},
		{plain(t), nil, nil, []string{"address"}},
	} {
		if !slices.Equal(c.d.Required, c.required) || !slices.Equal(c.d.Secret, c.secret) || !slices.Equal(c.d.Identity, c.identity) {
			t.Errorf("required %v, secret %v, identity %v; want %v, %v, %v", c.d.Required, c.d.Secret, c.d.Identity, c.required, c.secret, c.identity)
		}
	}
}

// TestShipped: every backend that is shipped says which of its members decide whose
// sandboxes a config reaches, or that none does.
func TestShipped(t *testing.T) {
	want := map[string][]string{
		"wasm":   nil, // its sandboxes are in its own data directory
		"docker": {"host"},
		"e2b":    {"allow_private", "api_key", "api_url", "proxy_url", "sandbox_domain"},
		"cube":   {"allow_private", "api_key", "api_url", "proxy_url", "sandbox_domain"},
	}
	files, err := filepath.Glob("../../plugins/*/plugin.yaml")
	if err != nil || len(files) < len(want) {
		t.Fatal(files, err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		m, err := manifest.Parse(file, text)
		if err != nil {
			t.Fatal(err)
		}
		if m.Kind != manifest.KindBackend {
			continue
		}
		identity, ok := want[m.Name]
		if d := described(t, file); !ok || !slices.Equal(d.Identity, identity) {
			t.Errorf("%s: identity %q, want %q", m.Name, d.Identity, identity)
		}
	}
}

func TestMissing(t *testing.T) {
	d := remote(t)
	for config, want := range map[string][]string{
		`{}`:                              {"api_key", "template"},
		``:                                {"api_key", "template"},
		`not json`:                        {"api_key", "template"},
		`{"api_key":"k"}`:                 {"template"},
		`{"api_key":"","template":"x"}`:   {"api_key"},
		`{"api_key":null,"template":"x"}`: {"api_key"},
		`{"api_key":"k","template":"x"}`:  nil,
	} {
		if got := d.Missing(json.RawMessage(config)); !slices.Equal(got, want) {
			t.Errorf("%s lacks %v, want %v", config, got, want)
		}
		var missing *MissingError
		if err := d.Check(json.RawMessage(config)); errors.As(err, &missing) != (want != nil) {
			t.Errorf("Check(%s) = %v", config, err)
		}
	}
	err := d.Check(json.RawMessage(`{"api_key":"hunter2","template":5}`))
	if err == nil || strings.Contains(err.Error(), "hunter2") {
		t.Errorf("a wrong type = %v", err)
	}
}

// TestIdentity: what changes whose sandboxes are reached, and what does not.
func TestIdentity(t *testing.T) {
	d := remote(t)
	base := `{"api_key":"k","template":"x"}`
	for config, same := range map[string]bool{
		`{"template":"x","api_key":"k"}`:                                     true,
		`{"api_key":"k","template":"other"}`:                                 true,
		`{"api_key":"k","template":"x","api_url":"https://api.example"}`:     true, // the default
		`{"api_key":"k","template":"x","allow_private":false}`:               true,
		`{"api_key":"k","template":"x","timeout":5}`:                         true,
		`{"api_key":"other","template":"x"}`:                                 false,
		`{"api_key":"k","template":"x","api_url":"https://other.example"}`:   false,
		`{"api_key":"k","template":"x","allow_private":true}`:                false,
		`{"api_key":"k","template":"x","api_url":"http://169.254.169.254/"}`: false, // not judged here
		`{"api_key":{"not":"text"}}`:                                         false,
		`broken`:                                                             false,
		``:                                                                   false,
	} {
		if got := d.SandboxIdentity(json.RawMessage(config)) == d.SandboxIdentity(json.RawMessage(base)); got != same {
			t.Errorf("%s and %s reach the same: %v, want %v", config, base, got, same)
		}
	}
	if id := d.SandboxIdentity(json.RawMessage(`{"api_key":"hunter2"}`)); strings.Contains(string(id), "hunter2") {
		t.Error("the identity holds a secret")
	}
	// Without notes every member decides, but for those that say they do not.
	p := plain(t)
	a, b := p.SandboxIdentity(json.RawMessage(`{"address":"a","cache":1}`)), p.SandboxIdentity(json.RawMessage(`{"address":"a","cache":2}`))
	if c := p.SandboxIdentity(json.RawMessage(`{"address":"b"}`)); a != b || a == c {
		t.Error("a manifest without notes is read otherwise")
	}
}

func TestRedact(t *testing.T) {
	got := string(remote(t).Redact(json.RawMessage(`{"api_key":"hunter2","template":"x"}`)))
	if strings.Contains(got, "hunter2") || !strings.Contains(got, `"template":"x"`) {
		t.Error(got)
	}
}

// TestProbe: a config that lacks something is never tried.
func TestProbe(t *testing.T) {
	b := hostbackend.New(t.TempDir())
	defer b.Close()
	d := described(t, "testdata/host.yaml")
	for config, ok := range map[string]bool{`{}`: false, `{"label":"x"}`: true, `{"label":"x","odd":1}`: false} {
		report, err := d.Probe(t.Context(), b, json.RawMessage(config))
		if err != nil || report.OK != ok || !ok && report.Detail == "" {
			t.Errorf("Probe(%s) = %+v, %v", config, report, err)
		}
	}
}

// FuzzIdentity: whatever a config holds, its identity is there, and equal JSON has an
// equal one.
func FuzzIdentity(f *testing.F) {
	d := remote(f)
	f.Add(`{"api_key":"k"}`)
	f.Add(`{"api_key":[1,2,{"a":null}]}`)
	f.Fuzz(func(t *testing.T, config string) {
		id := d.SandboxIdentity(json.RawMessage(config))
		if len(id) != 64 {
			t.Errorf("%q has the identity %q", config, id)
		}
		var v map[string]any
		if json.Unmarshal([]byte(config), &v) != nil || v == nil {
			return
		}
		again, err := json.Marshal(v)
		if err != nil {
			return
		}
		if other := d.SandboxIdentity(again); other != id {
			t.Errorf("%q and %q differ", config, again)
		}
		_ = d.Redact(json.RawMessage(config))
		_ = d.Missing(json.RawMessage(config))
	})
}
