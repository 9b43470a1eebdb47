package identity

import (
	"bytes"
	"crypto/rand"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

var (
	secretA = []byte("0123456789abcdef0123456789abcdef")
	secretB = []byte("another deployment secret, longer")
	idForm  = regexp.MustCompile(`^[A-Za-z0-9_-]{21}$`)
)

func keys(t testing.TB, secrets ...[]byte) *Keys {
	t.Helper()
	k, err := NewKeys(secrets...)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// The forms are a contract: an id in a chat must still resolve after an upgrade.
func TestGolden(t *testing.T) {
	k := keys(t, secretA)
	k.rand = bytes.NewReader(bytes.Repeat([]byte{0x5a}, 11))
	route := k.Route("eu-docker", "node-7")
	id, err := k.NewSession(route)
	if err != nil {
		t.Fatal(err)
	}
	const wantID, wantFile = "WlpaWlpaWlpaWlUmOLV59", "wxcgKNUQOIX3agOb76_DM"
	if id != wantID {
		t.Errorf("session id = %q, want %q", id, wantID)
	}
	sha := strings.Repeat("ab", 32)
	if got := k.FileID(wantID, "out/plot.png", sha); got != wantFile {
		t.Errorf("file id = %q, want %q", got, wantFile)
	}
}

func TestSessionRoundTrip(t *testing.T) {
	k := keys(t, secretA)
	for _, c := range []struct{ config, node string }{{"_default", ""}, {"a", "n1"}, {"b", ""}, {strings.Repeat("x", 64), "n2"}} {
		want := k.Route(c.config, c.node)
		id, err := k.NewSession(want)
		if err != nil {
			t.Fatal(err)
		}
		if !idForm.MatchString(id) {
			t.Fatalf("id %q has the wrong form", id)
		}
		got, ok := k.Session(id)
		if !ok || got != want {
			t.Errorf("Session(%q) = %v, %v; want %v", id, got, ok, want)
		}
	}
}

// An id is a word on a command line, not a flag.
func TestNoLeadingHyphen(t *testing.T) {
	k := keys(t, secretA)
	for i := range 2000 { // one in 64 would have one
		id, err := k.NewSession(Route{})
		if err != nil {
			t.Fatal(err)
		}
		file := k.FileID(id, "a.csv", strconv.Itoa(i))
		if id[0] == '-' || file[0] == '-' || !idForm.MatchString(file) || !k.IsFile(file, id, "a.csv", strconv.Itoa(i)) {
			t.Fatalf("session %q, file %q", id, file)
		}
	}
	k.rand = bytes.NewReader(append(bytes.Repeat([]byte{0xfb}, 11), bytes.Repeat([]byte{0x5a}, 11)...))
	if id, err := k.NewSession(Route{}); err != nil || id[:2] != "Wl" {
		t.Errorf("after a draw that begins with a hyphen: %q, %v", id, err)
	}
}

func TestForeignIDsAreAbsent(t *testing.T) {
	k := keys(t, secretA)
	id, err := keys(t, secretB).NewSession(Route{})
	if err != nil {
		t.Fatal(err)
	}
	mine, err := k.NewSession(Route{Config: 3})
	if err != nil {
		t.Fatal(err)
	}
	flipped := []byte(mine)
	flipped[15] ^= 1 // a route that was not issued
	for _, s := range []string{"", "m_0123456789abcdef01234567", id, mine[:20], mine + "A", string(flipped), strings.Repeat("A", 21), strings.Repeat("\x00", 21)} {
		if r, ok := k.Session(s); ok {
			t.Errorf("Session(%q) = %v, true; want absent", s, r)
		}
	}
}

func TestRotation(t *testing.T) {
	old := keys(t, secretA)
	id, err := old.NewSession(old.Route("c", "n"))
	if err != nil {
		t.Fatal(err)
	}
	file := old.FileID(id, "a.csv", "00")
	k := keys(t, secretB, secretA)
	route, ok := k.Session(id)
	if !ok {
		t.Fatal("an id made before the rotation no longer verifies")
	}
	if rs := k.Routes("c", "n"); rs[1] != route || rs[0] == rs[1] {
		t.Errorf("Routes = %v, want the old route %v second", rs, route)
	}
	if !k.IsFile(file, id, "a.csv", "00") {
		t.Error("a file id made before the rotation no longer matches")
	}
	if ids := k.FileIDs(id, "a.csv", "00"); len(ids) != 2 || ids[0] != k.FileID(id, "a.csv", "00") || ids[1] != file {
		t.Errorf("FileIDs = %q, want the new id and then the old one %q", ids, file)
	}
	if k.FileID(id, "a.csv", "00") == file {
		t.Error("new file ids are still made with the old secret")
	}
}

func TestFileIDDependsOnEverything(t *testing.T) {
	k := keys(t, secretA)
	base := k.FileID("s", "ab", "c")
	if !idForm.MatchString(base) {
		t.Fatalf("file id %q has the wrong form", base)
	}
	for _, other := range []string{k.FileID("t", "ab", "c"), k.FileID("s", "a", "bc"), k.FileID("sa", "b", "c"), k.FileID("s", "ab", "d"), keys(t, secretB).FileID("s", "ab", "c")} {
		if other == base {
			t.Error("two different files share an id")
		}
	}
}

func TestNewKeysRefusesShortSecrets(t *testing.T) {
	for _, secrets := range [][][]byte{nil, {nil}, {secretA, []byte("short")}} {
		if _, err := NewKeys(secrets...); err == nil {
			t.Errorf("NewKeys(%q) succeeded", secrets)
		}
	}
}

func TestRandomnessFailureIsAnError(t *testing.T) {
	k := keys(t, secretA)
	k.rand = bytes.NewReader(nil)
	if id, err := k.NewSession(Route{}); err == nil {
		t.Errorf("NewSession without randomness returned %q", id)
	}
	k.rand = rand.Reader
}

func FuzzSession(f *testing.F) {
	k, err := NewKeys(secretA)
	if err != nil {
		f.Fatal(err)
	}
	id, err := k.NewSession(Route{Config: 511, Node: 1})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(id)
	f.Add("")
	f.Add(strings.Repeat("é", 11))
	f.Fuzz(func(t *testing.T, s string) {
		if _, ok := k.Session(s); ok && (!Syntax(s) || len(s) != Length) {
			t.Errorf("%q verifies without being an id", s)
		}
	})
}

func TestPeerTags(t *testing.T) {
	a, err := NewKeys([]byte("the first secret of a deployment"))
	if err != nil {
		t.Fatal(err)
	}
	rotated, err := NewKeys([]byte("the second secret of a deployment"), []byte("the first secret of a deployment"))
	if err != nil {
		t.Fatal(err)
	}
	other, err := NewKeys([]byte("the secret of somebody else's"))
	if err != nil {
		t.Fatal(err)
	}
	tag := a.PeerTag("GET", "/x")
	for _, c := range []struct {
		name  string
		keys  *Keys
		parts []string
		want  bool
	}{
		{"the same", a, []string{"GET", "/x"}, true},
		{"after a rotation", rotated, []string{"GET", "/x"}, true},
		{"another deployment", other, []string{"GET", "/x"}, false},
		{"another path", a, []string{"GET", "/y"}, false},
		{"parts run together", a, []string{"GET/", "x"}, false},
	} {
		if c.keys.IsPeerTag(tag, c.parts...) != c.want {
			t.Errorf("%s: want %v", c.name, c.want)
		}
	}
	if a.IsPeerTag("", "GET", "/x") {
		t.Error("no tag is accepted")
	}
}
