package exec

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/caisson-run/caisson/host/session"
	"github.com/caisson-run/caisson/plugins/exec/internal/names"
)

// Which session a run goes on in is found in a time that grows with its refs, not with their
// square or cube, and not once the caller is gone.
func TestChoosingIsLinear(t *testing.T) {
	r := newRig(t)
	a, b := r.exec(alice, "echo x > f").SessionID, r.exec(alice, "echo x > f").SessionID
	owner := ownerOf(r.principal[alice])
	choose := func(ctx context.Context, n int) (took time.Duration, chosen string, err error) {
		in := &CodeRun{Lang: "bash", Code: "x"}
		prefix := strings.Repeat("a/", 4) + strings.Repeat("b", 200)
		for k := range n - 1 {
			in.Files = append(in.Files, CodeFile{ID: "f", Name: fmt.Sprintf("%s%06d", prefix, k), StorageSessionID: a})
		}
		in.Files = append(in.Files, CodeFile{ID: "f", Name: in.Files[n-2].Name, StorageSessionID: b})
		f := r.finder(owner)
		defer f.release()
		began := time.Now()
		target, x, _, err := r.choose(ctx, f, in)
		if took = time.Since(began); err != nil {
			return took, "", err
		}
		target.Release()
		return took, x.ID, nil
	}
	few, many := time.Hour, time.Hour
	for range 5 {
		for n, best := range map[int]*time.Duration{maxFiles / 8: &few, maxFiles: &many} {
			took, chosen, err := choose(t.Context(), n)
			if err != nil || chosen != b {
				t.Fatalf("%d refs: %q, %v; want %q", n, chosen, err, b)
			}
			*best = min(*best, took)
		}
	}
	t.Logf("%d refs take %v, %d take %v", maxFiles/8, few, maxFiles, many)
	if many > 40*few {
		t.Errorf("eight times as many refs take %d times as long", many/few)
	}
	gone, hangUp := context.WithCancel(t.Context())
	hangUp()
	if _, _, err := choose(gone, maxFiles); !errors.Is(err, context.Canceled) {
		t.Errorf("the caller is gone: %v", err)
	}
}

// Sessions with a file that another one's takes the place of are those that comparing every
// pair of refs finds.
func TestShadowed(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 2000 {
		f := &finder{found: map[string]*finding{"gone": {err: session.ErrNotFound}}}
		for _, id := range []string{"a", "b", "c"} {
			f.found[id] = &finding{Session: session.Session{ID: id}}
		}
		in := &CodeRun{SessionID: "a"}
		for range random.IntN(8) {
			pick := func(of ...string) string { return of[random.IntN(len(of))] }
			in.Files = append(in.Files, CodeFile{
				Name: pick("x", "/mnt/data/x", "y", "é", "e\u0301", "../x"), StorageSessionID: pick("a", "b", "c", "gone", ""),
			})
		}
		got, err := f.shadowed(t.Context(), in)
		if err != nil {
			t.Fatal(err)
		}
		for _, id := range []string{"a", "b", "c"} {
			if want := shadowedPairs(f, in, id); got[id] != want {
				t.Fatalf("%s of %+v: %v, want %v", id, in.Files, got[id], want)
			}
		}
	}
}

func shadowedPairs(f *finder, in *CodeRun, id string) bool {
	for k, ref := range in.Files {
		for _, other := range in.Files[k+1:] {
			from := other.session(in.SessionID)
			one, err := names.Ref(ref.Name)
			two, err2 := names.Ref(other.Name)
			if ref.session(in.SessionID) == id && from != id && f.found[from].err == nil && one == two && errors.Join(err, err2) == nil {
				return true
			}
		}
	}
	return false
}

// A text of a ref that is longer than any that means something is refused by its name, and
// lists are counted before anything is made of them.
func TestLongRefsAreRefused(t *testing.T) {
	for _, field := range []string{"id", "name", "storage_session_id", "session_id", "kind", "resource_id", "entity_id"} {
		body, err := json.Marshal(obj{"lang": "py", "code": "x", "files": []obj{{"id": "f"}, {field: strings.Repeat("x", maxRefBytes+1)}}})
		if err != nil {
			t.Fatal(err)
		}
		if _, refused := decodeRun(body); refused == nil || refused.Status != 400 || refused.Message != fmt.Sprintf("files[1].%s is longer than %d bytes", field, maxRefBytes) {
			t.Errorf("%s: %v", field, refused)
		}
	}
	for name, body := range map[string]string{
		"files":   `"files":[` + strings.Repeat("0,", 1<<17) + `0]`,
		"args":    `"args":[` + strings.Repeat("0,", 1<<17) + `0]`,
		"members": strings.Repeat(`"x":0,`, 1<<17) + `"x":0`,
		"a ref's": `"files":[{` + strings.Repeat(`"x":0,`, 1<<17) + `"x":0}]`,
	} {
		b := []byte(`{"lang":"py","code":"x",` + body + `}`)
		if n := testing.AllocsPerRun(3, func() { _, _ = decodeRun(b) }); n > 200 {
			t.Errorf("%s: %v allocations", name, n)
		}
	}
	if _, err := tools([]byte(`[` + strings.Repeat("0,", maxTools) + `0]`)); err == nil || !strings.Contains(err.Error(), "has more than") {
		t.Error(err)
	}
}

// An input that a backend did not place is named once.
func TestUnplaced(t *testing.T) {
	in := &inputs{}
	for _, name := range []string{"a", "d/b", "c"} {
		in.found = append(in.found, &input{name: name, ref: CodeFile{Name: name}})
	}
	in.unplaced([]string{"/mnt/data/d/b", "/mnt/data/d/b", "/mnt/data/x", "/elsewhere/a"})
	if len(in.missing) != 1 || in.missing[0] != "d/b" || !in.found[1].missing || in.found[0].missing {
		t.Errorf("missing are %q", in.missing)
	}
}
