package exec

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/caisson-run/caisson/host"
	"github.com/caisson-run/caisson/host/identity"
	"github.com/caisson-run/caisson/host/peer"
)

// keysOnly are services of which only keys are asked.
type keysOnly struct {
	services
	keys *identity.Keys
}

func (k keysOnly) Keys() *identity.Keys { return k.keys }
func (k keysOnly) Peers() *peer.Peers   { return nil }

func FuzzToken(f *testing.F) {
	keys, err := identity.NewKeys([]byte("an old enough secret of the tests"))
	if err != nil {
		f.Fatal(err)
	}
	issued, err := newToken(keysOnly{keys: keys})
	if err != nil {
		f.Fatal(err)
	}
	for _, s := range []string{issued, issued[1:], issued[:21], issued + "A", "", ".", "../../etc/passwd", strings.Repeat("A", 21) + "." + strings.Repeat("A", 26)} {
		f.Add(s)
	}
	programs := newPrograms(Options{Programs: 1, TenantPrograms: 1}, keysOnly{keys: keys})
	f.Fuzz(func(t *testing.T, s string) {
		id, ok := nodePart(s)
		if ok && (len(s) != len(issued) || !identity.Syntax(id)) || s == issued && !ok {
			t.Errorf("%q is taken for a token: %v", s, ok)
		}
		if _, err := programs.Read(programOwner(host.Principal{Org: "acme"}), s); err == nil {
			t.Errorf("%q continues something", s)
		}
	})
}

func FuzzProgram(f *testing.F) {
	for _, s := range []string{
		`{"code":"print(1)","tools":[{"name":"a-b","parameters":{"properties":{"x":{"type":"object"}},"required":["x"]}}]}`,
		`{"lang":"bash","code":"a","tools":[{"name":"it's"},{"name":"\u0000"}]}`, `{"language":"PYTHON","code":"x","timeout":1e99,"files":[{}]}`,
		`{"code":"x","tools":[{"name":"class","parameters":{"properties":[]}},{"name":"class_tool"}]}`,
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		var m map[string]json.RawMessage
		if json.Unmarshal([]byte(s), &m) != nil || m == nil {
			return
		}
		in, err := decodeProgram(m)
		if err != nil {
			if he, ok := err.(*host.HTTPError); !ok || he.Status != 400 {
				t.Errorf("%T: %v", err, err)
			}
			return
		}
		if in.Code == "" || len(in.tools) > maxTools || in.Timeout < minTimeout || in.Args != nil || in.Lang != langPython && in.Lang != langBash {
			t.Errorf("%+v", in)
		}
		text, err := in.text()
		if in.Lang == langPython && err != nil || err == nil && len(text) < len(in.Code) && in.Lang == langBash {
			t.Errorf("%v: %q", err, text)
		}
	})
}
