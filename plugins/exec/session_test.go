package exec

import (
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/caisson-run/caisson/sdk/backend"
)

func TestSessionsShareFilesAndNothingElse(t *testing.T) {
	r := newRig(t)
	one := r.exec(alice, "echo 1 > a.txt; mkdir -p out/2026; echo 2 > out/2026/r.csv; : > empty; X=1; cd out")
	if got := fileNames(one.Files); got != "a.txt empty out/2026/r.csv" {
		t.Fatalf("files = %s", got)
	}
	two := r.exec(alice, "cat a.txt; pwd | grep -c /out; echo X=$X", obj{"session_id": one.SessionID})
	if two.SessionID != one.SessionID || two.Stdout != "1\n0\nX=\n" || len(two.Files) != 0 {
		t.Errorf("second run = %+v", two)
	}
	// Continued through refs alone, as newer clients do.
	three := r.exec(alice, "cat out/2026/r.csv; echo new > b.txt", obj{"files": one.Files})
	if three.SessionID != one.SessionID || three.Stdout != "2\n" || fileNames(three.Files) != "b.txt (a.txt) (empty) (out/2026/r.csv)" {
		t.Errorf("third run = %+v", three)
	}
	if n := r.shells.created.Load(); n != 1 {
		t.Errorf("%d sandboxes for one session", n)
	}
	for _, f := range one.Files {
		if a := r.get(alice, "/download/"+f.StorageSessionID+"/"+f.ID); a.status != 200 || int64(len(a.body)) != f.Size {
			t.Errorf("download of %s: %d %q", f.Name, a.status, a.body)
		}
	}
}

// Two runs in one session at the same time take turns.
func TestRunsOfOneSessionTakeTurns(t *testing.T) {
	r := newRig(t)
	s := r.exec(alice, "echo 0 > n").SessionID
	var wg sync.WaitGroup
	for range 6 {
		wg.Go(func() {
			res := r.exec(alice, "n=$(cat n); echo $((n+1)) > n", obj{"session_id": s})
			if res.SessionID != s || fileNames(res.Files) != "n" {
				t.Errorf("%+v", res)
			}
		})
	}
	wg.Wait()
	if got := r.content(s, "n"); got != "6\n" {
		t.Errorf("n = %q: runs overlapped", got)
	}
}

// The turn of a session is its owner's: whoever else names it neither waits for it nor keeps
// the owner waiting, as the time that takes would tell of the session.
func TestTurnsOfOthers(t *testing.T) {
	r := newRig(t, func(o *Options) { o.MaxWait = 2 * time.Second })
	s := r.exec(alice, "echo secret > s").SessionID
	end, err := r.sessions.Hold(t.Context(), s) // a run of alice
	if err != nil {
		t.Fatal(err)
	}
	defer end()
	for _, who := range []string{mallory, alice} {
		want := 200
		if who == alice {
			want = 429
		}
		for name, a := range map[string]answer{
			"run":     r.post(who, "/exec", obj{"lang": "bash", "code": "ls", "session_id": s}),
			"program": r.post(who, "/exec/programmatic", obj{"lang": "bash", "code": "ls", "session_id": s}),
		} {
			if a.status != want || strings.Contains(string(a.body), s) {
				t.Errorf("a %s of %s: %d %s, want %d", name, who, a.status, a.body, want)
			}
		}
	}
}

// The client may have gone on from a session that is not there any more.
func TestSessionsThatAreNotThere(t *testing.T) {
	r := newRig(t)
	theirs := r.exec(mallory, "echo secret > s").SessionID
	gone := r.exec(alice, "echo > x").SessionID
	if err := r.End(t.Context(), "acme", gone); err != nil {
		t.Fatal(err)
	}
	for _, id := range []string{theirs, gone, "m_0123456789abcdef01234567", "AAAAAAAAAAAAAAAAAAAAA"} {
		res := r.exec(alice, "ls", obj{"session_id": id})
		// One's own comes back under its id, and empty.
		if (res.SessionID == id) != (id == gone) || len(res.SessionID) != 21 || res.Stdout != "" || res.Stderr != "" {
			t.Errorf("session_id %s: %+v", id, res)
		}
	}
	if r.content(theirs, "s") != "secret\n" {
		t.Error("another tenant's session was touched")
	}
	into[obj](t, r.post(alice, "/exec", obj{"lang": "bash", "code": "true", "session_id": "../x"}), 400)
}

// A session that ends between being found and being entered is as good as one
// that was never there.
func TestSessionVanishesWhileItsRunBegins(t *testing.T) {
	r := newRig(t)
	s := r.exec(rich, "echo 1 > f").SessionID
	r.shells.onConnect = func() error {
		r.shells.onConnect = nil
		return r.End(t.Context(), "acme", s)
	}
	res := r.exec(rich, "ls", obj{"session_id": s})
	if res.SessionID != s || res.Stdout != "" {
		t.Errorf("%+v", res)
	}
	if u := r.usage(); len(u) != 2 || u[1].Session != res.SessionID {
		t.Errorf("usage = %+v", u)
	}
	if n := len(r.shells.live()); n != 1 {
		t.Errorf("%d sandboxes", n)
	}
}

// Sandboxes deleted behind our back come back once each, however many runs miss
// them at once.
func TestVanishedSessionsComeBackOnce(t *testing.T) {
	r := newRig(t)
	const sessions, runs = 4, 24
	var ids []string
	for range sessions {
		id := r.exec(alice, "echo 1 > f").SessionID
		if err := r.shells.Delete(t.Context(), backend.Ref{Config: "main", ID: id}); err != nil {
			t.Fatal(err)
		}
		ids = append(ids, id)
	}
	var wg sync.WaitGroup
	for n := range runs {
		wg.Go(func() {
			res := r.exec(alice, "ls; echo x >> seen", obj{"session_id": ids[n%sessions]})
			if res.SessionID != ids[n%sessions] || strings.Contains(res.Stdout, "f\n") {
				t.Errorf("%+v", res)
			}
		})
	}
	wg.Wait()
	if n := len(r.shells.live()); n != sessions {
		t.Errorf("%d sandboxes, want %d", n, sessions)
	}
	for _, id := range ids {
		if got := strings.Count(r.content(id, "seen"), "x"); got != runs/sessions {
			t.Errorf("%d runs in session %s, want %d", got, id, runs/sessions)
		}
	}
}

// A provider that does not answer proves nothing: the run is refused, not moved.
func TestDoubtKeepsTheSession(t *testing.T) {
	r := newRig(t)
	one := r.exec(alice, "echo 1 > f")
	down := &backend.Error{Kind: backend.KindUnavailable, Message: "dial 10.0.0.1: refused"}
	r.shells.onList = func() error { return down }
	for _, body := range []obj{{"session_id": one.SessionID}, {"files": one.Files}} {
		body["lang"], body["code"] = "bash", "true"
		a := r.post(alice, "/exec", body)
		if e := into[obj](t, a, 503); e["code"] != "sandbox_unavailable" || strings.Contains(string(a.body), "10.0.0.1") {
			t.Errorf("%s", a.body)
		}
	}
	if n := r.shells.created.Load(); n != 1 {
		t.Errorf("%d sandboxes were made", n)
	}
}

func TestPausedSessionsWakeForWorkOnly(t *testing.T) {
	r := newRig(t)
	one := r.exec(alice, "echo 1 > f")
	f := one.Files[0]
	r.pause(one.SessionID)
	for _, p := range []string{"/files/" + one.SessionID, "/sessions/" + one.SessionID + "/objects/" + f.ID} {
		if e := into[obj](t, r.get(alice, p), 409); e["code"] != "session_paused" {
			t.Errorf("%s: %v", p, e)
		}
	}
	if n := r.shells.connects.Load(); n != 0 {
		t.Errorf("looking woke the session %d times", n)
	}
	if a := r.get(alice, "/download/"+one.SessionID+"/"+f.ID); a.status != 200 || string(a.body) != "1\n" {
		t.Errorf("download: %d %s", a.status, a.body)
	}
	r.pause(one.SessionID)
	if res := r.exec(alice, "cat f", obj{"session_id": one.SessionID}); res.Stdout != "1\n" {
		t.Errorf("%+v", res)
	}
}
