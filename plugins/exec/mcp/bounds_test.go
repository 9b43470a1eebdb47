package mcp

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/caisson-run/caisson/host"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// FuzzAbridged: what is left of a text is valid, begins and ends like it, and is bounded.
func FuzzAbridged(f *testing.F) {
	f.Add("añ€😀 and more of it", 10)
	f.Add("", 1)
	f.Add("\xff\xfe\xfd\xfc\xfb", 4)
	f.Fuzz(func(t *testing.T, s string, limit int) {
		if limit < 4 || limit > 1<<20 {
			t.Skip()
		}
		got, cut := abridged(s, limit)
		switch {
		case cut != (len(s) > limit):
			t.Errorf("cut is %v of %d bytes", cut, len(s))
		case !cut && got != s:
			t.Errorf("%q became %q", s, got)
		case len(got) > limit+64:
			t.Errorf("%d bytes for a limit of %d", len(got), limit)
		case utf8.ValidString(s) && !utf8.ValidString(got):
			t.Errorf("%q is no text any more: %q", s, got)
		}
		if cut {
			head, tail, ok := strings.Cut(got, "\n[")
			_, tail, ok2 := strings.Cut(tail, " bytes left out]\n")
			if !strings.Contains(s, "\n[") && (!ok || !ok2 || !strings.HasPrefix(s, head) || !strings.HasSuffix(s, tail)) {
				t.Errorf("%q became %q", s, got)
			}
		}
	})
}

// FuzzSessionIDs: an id is its owner's only, whatever is done to it.
func FuzzSessionIDs(f *testing.F) {
	w := newOwners(Options{}, nil)
	mine, theirs := owner{org: "a", user: "b", via: host.ViaBearer}, owner{org: "ab", via: host.ViaBearer}
	f.Add("")
	f.Add(w.mint(mine))
	f.Add(w.mint(mine) + "=")
	f.Fuzz(func(t *testing.T, id string) {
		if w.owns(theirs, id) {
			t.Errorf("%q is somebody else's", id)
		}
		own := w.mint(mine)
		if !w.owns(mine, own) || w.owns(theirs, own) || w.owns(owner{org: "a", user: "b"}, own) {
			t.Error("an id is not its owner's alone")
		}
		if id != "" && w.owns(mine, own+id) {
			t.Errorf("with %q behind it an id is still good", id)
		}
	})
}

func TestOptions(t *testing.T) {
	for name, o := range map[string]Options{
		"no handler":     {},
		"negative limit": {Handler: nothing, Sessions: -1},
		"negative time":  {Handler: nothing, Idle: -1},
		"host with port": {Handler: nothing, Hosts: []string{"a.example:80"}},
		"URL for a host": {Handler: nothing, Hosts: []string{"https://a.example"}},
		"empty host":     {Handler: nothing, Hosts: []string{""}},
	} {
		if _, err := New(o); err == nil || !strings.HasPrefix(err.Error(), "mcp: ") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := New(Options{Handler: nothing, Hosts: []string{"a.example", "::1", "10.0.0.1"}}); err != nil {
		t.Error(err)
	}
}
