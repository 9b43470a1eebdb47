package remote

import (
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"go.uber.org/goleak"

	"github.com/caisson-run/caisson/sdk/backend"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// FuzzMetadata: whatever is stamped is plain, and comes back as it was.
func FuzzMetadata(f *testing.F) {
	f.Add("main", "session", "tenant", "", "key", "value", int64(60))
	f.Add("p", "b", "pp", "b64", "a=b&c", "\x00\xff", int64(-5))
	f.Fuzz(func(t *testing.T, config, session, tenant, user, key, value string, seconds int64) {
		if config == "" || !utf8.ValidString(key) || !utf8.ValidString(value) {
			return // labels are JSON, whose text is UTF-8
		}
		m := backend.Metadata{
			Deployment: "d", Config: backend.NoConfig, Session: session, Tenant: tenant, User: user, Origin: "exec",
			Labels: map[string]string{key: value},
		}
		p := backend.TimeoutPolicy{Mode: backend.TimeoutAfter, Duration: time.Duration(seconds&0xffff) * time.Second, Action: backend.TimeoutPause}
		pairs := stamp(config, "r", m, p)
		for k, v := range pairs {
			if strings.Trim(k+v, plain) != "" {
				t.Errorf("%q: %q is not plain", k, v)
			}
		}
		gotConfig, got, gotPolicy, ok := read(pairs)
		if !ok || gotConfig != config || !reflect.DeepEqual(got, m) || gotPolicy != p {
			t.Errorf("%q %+v %+v became %q %+v %+v, %v", config, m, p, gotConfig, got, gotPolicy, ok)
		}
		// What somebody else stamped is read without harm.
		read(map[string]string{keyConfig: config, keyLabels: value, keyPolicy: key, keySession: session})
	})
}

// FuzzSnapshotName: a name is one that providers take, and what was put in is found.
func FuzzSnapshotName(f *testing.F) {
	f.Add("main", "Before the change", "label", "value")
	f.Add("", "-x-", "", "")
	f.Fuzz(func(t *testing.T, config, name, key, value string) {
		labels := map[string]string{key: value, "fixed": "1"}
		full, ok := snapshotName(config, name, labels)
		if !ok {
			t.Fatal("two labels do not fit")
		}
		if len(full) > maxName || strings.Trim(full, "abcdefghijklmnopqrstuvwxyz0123456789-_") != "" {
			t.Errorf("%q is no name for providers", full)
		}
		for _, form := range []string{full, "team/" + full + ":default"} {
			c, has, given, ok := parseSnapshot(form)
			if !ok || c != digest("config", config) || !strings.HasPrefix(slugOf(name), given) {
				t.Errorf("%q: %q %q %v", form, c, given, ok)
			}
			for k := range maps.Keys(labels) {
				if !slices.Contains(has, digest("label", k, labels[k])) {
					t.Errorf("%q lacks label %q", form, k)
				}
			}
		}
		parseSnapshot(name)
	})
}

// TestForeignNames: what others called their snapshots and templates is not ours.
func TestForeignNames(t *testing.T) {
	for _, name := range []string{"", "csn", "csn-x", "backup", "csn/x:y", "my-csn-a-b-c", "x-csn-a-b"} {
		if c, _, _, ok := parseSnapshot(name); ok && c == digest("config", "main") {
			t.Errorf("%q is taken for ours", name)
		}
	}
	for name, want := range map[string]bool{
		"caisson": true, "caisson-rabc123": true, "team/caisson:default": true, "caisson-r": false, "caisson-r-1": false, "caisson-rABC!": false,
		"caisson-other": false, "caisson2": false, "xcaisson": false,
	} {
		if _, got := standard("caisson", Built{Names: []string{name}}); got != want {
			t.Errorf("template %q is ours: %v, want %v", name, got, want)
		}
	}
}
