package host

import (
	"os"
	"strings"
	"testing"
)

func TestVerifyModule(t *testing.T) {
	code, err := os.ReadFile("../runtimes/wasm/testdata/assemblyscript/policy.wasm")
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		more  string
		code  []byte
		fails string // the check that does
		says  string
	}{
		"a good one":        {"", code, "", ""},
		"damaged":           {"", code[:200], "files", ""},
		"imports more":      {"imports: []\n", code, "files", "host_v1.log"},
		"too little fuel":   {"limits: {fuel: 1000}\n", code, "answers", "fuel"},
		"another digest":    {"sha256: \"" + strings.Repeat("a", 64) + "\"\n", code, "files", "sha256"},
		"a config it wants": {"config: {type: object, required: [zone], properties: {zone: {type: string}}}\n", code, "load", "zone"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := policyVersion(t, t.TempDir(), "1.0.0", "", c.code)
			if c.more != "" {
				path := dir + "/plugin.yaml"
				b, err := os.ReadFile(path)
				if err != nil {
					t.Fatal(err)
				}
				text := string(b)
				if strings.HasPrefix(c.more, "imports") {
					text = strings.Replace(text, "imports: [log]\n", "", 1)
				}
				if err := os.WriteFile(path, []byte(text+c.more), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			checks, err := VerifyModule(t.Context(), dir, VerifyOptions{Calls: 2000})
			if err != nil {
				t.Fatal(err)
			}
			last := checks[len(checks)-1]
			switch {
			case c.fails == "" && (len(checks) != 6 || !last.OK):
				t.Errorf("%+v", checks)
			case c.fails != "" && (last.OK || last.Name != c.fails || !strings.Contains(last.Detail, c.says)):
				t.Errorf("%+v, want %s to fail because of %q", last, c.fails, c.says)
			}
		})
	}
}

func TestTryBackend(t *testing.T) {
	f := newFixture(t)
	f.installFake()
	trial, err := TryBackend(t.Context(), f.plugins+"/fake", TrialOptions{DataDir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	if trial.Info.Name != "fake" || string(trial.Config) != `{"region":"eu"}` {
		t.Errorf("%+v", trial)
	}
	if h, err := trial.Backend.Health(t.Context()); err != nil || !h.Ready {
		t.Errorf("%+v %v", h, err)
	}
	if err := trial.Close(t.Context()); err != nil {
		t.Error(err)
	}
	for config, want := range map[string]string{`{"region":7}`: "region", `{}`: ""} {
		trial, err := TryBackend(t.Context(), f.plugins+"/fake", TrialOptions{DataDir: t.TempDir(), Config: []byte(config)})
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", config, err)
		}
		if err == nil {
			if err := trial.Close(t.Context()); err != nil {
				t.Error(err)
			}
		}
	}
}
