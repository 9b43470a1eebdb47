package deployment

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/caisson-run/caisson/host"
	"github.com/caisson-run/caisson/host/config"
	"github.com/caisson-run/caisson/host/identity"
	"github.com/hashicorp/go-hclog"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func lookup(env map[string]string) func(string) (string, bool) {
	return func(name string) (string, bool) { v, ok := env[name]; return v, ok }
}

func parse(t *testing.T, text string) config.File {
	t.Helper()
	f, err := config.Parse("f", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func TestAdmission(t *testing.T) {
	const two = "brand_org: acme\nadmission:\n  service_key_wallet: w\n  service_keys:\n  - {id: a, key_env: A}\n  - {id: b, key_env: B}\n"
	for _, tt := range []struct {
		name, file string
		env        map[string]string
		key        string
		want       host.Principal // RequestID aside
		status     int            // of the refusal, if any
		warnings   int
		fails      string
	}{
		{
			name: "the default key", env: map[string]string{"CODE_EXEC_API_KEY": "secret-1"}, key: "secret-1",
			want: host.Principal{Org: "default", Via: host.ViaServiceKey, KeyID: "env"},
		},
		{name: "no key at all", key: "any", status: 503, warnings: 1},
		{name: "a blank key is none", env: map[string]string{"CODE_EXEC_API_KEY": " \n"}, key: "", status: 503, warnings: 1},
		{name: "no keys wanted", file: "admission: {service_keys: []}\n", env: map[string]string{"CODE_EXEC_API_KEY": "secret-1"}, key: "secret-1", status: 503, warnings: 1},
		{
			name: "keys of the file", file: two, env: map[string]string{"A": "secret-a", "B": "secret-b"}, key: "secret-b",
			want: host.Principal{Org: "acme", Via: host.ViaServiceKey, KeyID: "b", Payer: "w"},
		},
		{name: "only keys of the file", file: two, env: map[string]string{"A": "secret-a", "B": "secret-b", "CODE_EXEC_API_KEY": "secret-1"}, key: "secret-1", status: 401},
		{name: "a key of the file is unset", file: two, env: map[string]string{"A": "secret-a"}, fails: `service key "b": environment variable B: not set`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			o := Options{File: parse(t, tt.file), LookupEnv: lookup(tt.env), Log: hclog.NewNullLogger()}
			d := &Deployment{}
			a, err := o.admission(d, nil)
			if tt.fails != "" {
				if err == nil || !strings.Contains(err.Error(), tt.fails) {
					t.Errorf("admission = %v, want %q", err, tt.fails)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			defer a.Close()
			if len(d.Warnings()) != tt.warnings {
				t.Errorf("warnings = %q, want %d", d.Warnings(), tt.warnings)
			}
			r := httptest.NewRequest(http.MethodPost, "/v1/exec", nil)
			r.Header.Set("X-API-Key", tt.key)
			p, err := a.Admit(r)
			var refused *host.HTTPError
			switch {
			case tt.status != 0 && (!errors.As(err, &refused) || refused.Status != tt.status):
				t.Errorf("Admit = %+v, %v; want %d", p, err, tt.status)
			case tt.status == 0:
				p.RequestID = ""
				if err != nil || p != tt.want {
					t.Errorf("Admit = %+v, %v; want %+v", p, err, tt.want)
				}
			}
		})
	}
}

// Standing is asked for only where runs cost something.
func TestPriced(t *testing.T) {
	payer := host.Principal{Org: "o", Payer: "o"}
	for _, tt := range []struct {
		file, fee string
		priced    bool
	}{
		{"", "", true},
		{"", "0", false},
		{"", "-1", true},
		{"billing: {ledger: none}\n", "5", false},
	} {
		o := Options{File: parse(t, tt.file), LookupEnv: lookup(map[string]string{"CODE_EXEC_FEE_CENTS": tt.fee}), Log: hclog.NewNullLogger()}
		a, err := o.admission(&Deployment{}, nil)
		if err != nil {
			t.Fatal(err)
		}
		// Without wallets, whoever must pay has no standing.
		if err := a.Standing(t.Context(), payer, host.ActUpload); (err != nil) != tt.priced {
			t.Errorf("file %q, fee %q: Standing = %v, want priced %v", tt.file, tt.fee, err, tt.priced)
		}
		_ = a.Close()
	}
}

func TestFee(t *testing.T) {
	env := lookup(map[string]string{"CODE_EXEC_FEE_CENTS": "4"})
	if run, lease := Fee(env, host.ActRun), Fee(env, host.ActLease); run != 4 || lease != 0 {
		t.Errorf("fees = %d, %d; want 4, 0", run, lease)
	}
	if run := Fee(lookup(nil), host.ActRun); run != 1 {
		t.Errorf("default fee = %d, want 1", run)
	}
}

// Every limit of the entry that the file can set reaches it.
func TestExecOptions(t *testing.T) {
	f := parse(t, `
requests: {max_bytes: 1KiB}
uploads: {max_bytes: 2KiB, max_files: 3, tenant_files: 4, tenant_bytes: 5KiB}
artifacts: {max_files: 6, max_file_bytes: 7KiB, max_depth: 8}
queue: {running: 9, waiting: 10, tenant_running: 11, tenant_waiting: 12, max_wait: 13s}
programs: {live: 14, tenant_live: 15, ttl: 16s}
`)
	o := Options{File: f, LookupEnv: lookup(nil)}.exec()
	if o.Fee() != 1 {
		t.Errorf("fee = %d, want 1", o.Fee())
	}
	got := []any{
		o.BodyBytes, o.UploadBytes, o.UploadFiles, o.QuotaFiles, o.QuotaBytes, o.ChangedFiles, o.ChangedFileBytes, o.ChangedDepth,
		o.Running, o.Waiting, o.TenantRunning, o.TenantWaiting, o.MaxWait, o.Programs, o.TenantPrograms, o.ProgramTTL,
	}
	want := []any{
		int64(1024), int64(2048), 3, int64(4), int64(5120), 6, int64(7168), 8,
		9, 10, 11, 12, 13 * time.Second, 14, 15, 16 * time.Second,
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("options = %v, want %v", got, want)
	}
}

// What fails to open leaves nothing: the leak check of TestMain counts.
func TestFailedOpening(t *testing.T) {
	dir, tmp := t.TempDir(), t.TempDir()
	t.Setenv("TMPDIR", tmp)
	keys, err := identity.NewKeys([]byte(strings.Repeat("k", 16)))
	if err != nil {
		t.Fatal(err)
	}
	o := Options{
		Keys: keys,
		File: config.Default(), DataDir: dir, LedgerPath: dir + "/ledger.db", PluginDirs: []string{dir},
		LookupEnv: lookup(nil), Log: hclog.NewNullLogger(),
	}
	for name, open := range map[string]func() (*Deployment, error){
		"Serve": func() (*Deployment, error) { return Serve(t.Context(), o, http.NewServeMux()) },
		"Local": func() (*Deployment, error) { return Local(t.Context(), o) },
	} {
		if _, err := open(); err == nil || !strings.Contains(err.Error(), `"wasm"`) {
			t.Errorf("%s without plugins = %v, want the plugin named", name, err)
		}
	}
	left, err := filepath.Glob(tmp + "/*")
	if err != nil || len(left) != 0 {
		t.Errorf("left in the temporary directory: %q, %v", left, err)
	}
}
