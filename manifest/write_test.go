package manifest_test

import (
	"strings"
	"testing"

	"github.com/caisson-run/caisson/manifest"
)

func TestPin(t *testing.T) {
	digest, old := strings.Repeat("ab", 32), strings.Repeat("0", 63)+"f"
	for _, tt := range []struct{ name, src, want string }{
		{"absent", backend, backend + "sha256: \"D\"\n"},
		{
			"absent, more behind", "# head\n" + strings.Replace(backend, "path: docker", "path: docker # here", 1) + "env: [A]\n# tail",
			"# head\n" + strings.Replace(backend, "path: docker", "path: docker # here", 1) + "sha256: \"D\"\nenv: [A]\n# tail",
		},
		{"absent, no newline at the end", strings.TrimSuffix(backend, "\n"), backend + "sha256: \"D\"\n"},
		{"absent, carriage returns", strings.ReplaceAll(backend, "\n", "\r\n"), strings.ReplaceAll(backend+"sha256: \"D\"\n", "\n", "\r\n")},
		{"plain", backend + "sha256: O\n", backend + "sha256: \"D\"\n"},
		{"plain, comment", backend + "sha256:   O   # by make\nenv: [A]\n", backend + "sha256:   \"D\"   # by make\nenv: [A]\n"},
		{"double quotes", "sha256: \"O\" # x\n" + backend, "sha256: \"D\" # x\n" + backend},
		{"single quotes", "sha256: 'O'\n" + backend, "sha256: \"D\"\n" + backend},
		{"quoted key", "'sha256': O\n" + backend, "'sha256': \"D\"\n" + backend},
		{"the same again", backend + "sha256: \"D\"\n", backend + "sha256: \"D\"\n"},
		{
			"beside a like word", backend + "description: \"sha256: O\"\nsha256: O\n",
			backend + "description: \"sha256: O\"\nsha256: \"D\"\n",
		},
		{"indented", "  " + strings.ReplaceAll(strings.TrimSpace(backend), "\n", "\n  ") + "\n", "  " + strings.ReplaceAll(backend+"sha256: \"D\"", "\n", "\n  ") + "\n"},
	} {
		fill := func(s string) string {
			return strings.ReplaceAll(strings.ReplaceAll(s, "D\"", digest+"\""), " O", " "+old)
		}
		src := strings.NewReplacer("\"O\"", "\""+old+"\"", "'O'", "'"+old+"'").Replace(fill(tt.src))
		want := fill(tt.want)
		got, err := manifest.Pin([]byte(src), digest)
		if err != nil || string(got) != want {
			t.Errorf("%s: %v\n--- got\n%s--- want\n%s", tt.name, err, got, want)
		}
	}
}

func TestPinRefuses(t *testing.T) {
	digest := strings.Repeat("ab", 32)
	for _, tt := range []struct{ name, src, digest, want string }{
		{"a bad manifest", "schema: 1\n", digest, "required"},
		{"a bad digest", backend, "sha256:" + digest, "64 lower-case"},
		{"an injected line", backend, digest + "\"\nenv: [HOME]\n#", "64 lower-case"},
		{"JSON", `{"schema":1,"name":"x","version":"1.0.0","kind":"backend","runtime":"process","protocol":1,"path":"x"}`, digest, "one key per line"},
		{"a path on two lines", strings.Replace(backend, "path: docker", "path: \"doc\\\n  ker\"", 1), digest, "set sha256"},
		{"a folded digest", backend + "sha256: >-\n  " + digest + "\n", strings.Repeat("cd", 32), "set sha256"},
	} {
		if got, err := manifest.Pin([]byte(tt.src), tt.digest); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: got %v, want an error with %q\n%s", tt.name, err, tt.want, got)
		}
	}
}

func TestSetVersion(t *testing.T) {
	src := strings.Replace(backend, "version: 1.0.0", "version: 1.0.0 # set by make", 1)
	want := strings.Replace(backend, "version: 1.0.0", "version: \"2.0.0-rc.1\" # set by make", 1)
	got, err := manifest.SetVersion([]byte(src), "2.0.0-rc.1")
	if err != nil || string(got) != want {
		t.Errorf("%v\n%s", err, got)
	}
	if _, err := manifest.SetVersion([]byte(src), "v2"); err == nil {
		t.Error("v2 was taken for a version")
	}
}
