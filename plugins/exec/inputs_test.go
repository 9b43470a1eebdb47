package exec

import (
	"context"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/caisson-run/caisson/host/session"
	"github.com/caisson-run/caisson/sdk/backend"
)

const notAvailable = "input files not available in this session: "

func TestUploadThenRun(t *testing.T) {
	r := newRig(t)
	up := r.upload(alice, csv("data one.csv", "a,b\n"))
	if up.Message != "success" || up.StorageSessionID != up.SessionID || up.Files[0].Filename != "data one.csv" || up.Files[0].Size != 4 {
		t.Fatalf("%+v", up)
	}
	// Any spelling of the session, and the name that the client promised.
	for _, ref := range []obj{
		{"id": up.Files[0].FileID, "name": "data_one.csv", "storage_session_id": up.SessionID},
		{"id": up.Files[0].FileID, "name": "data_one.csv", "session_id": up.SessionID},
		{"id": up.Files[0].FileID, "name": "/mnt/data/data_one.csv", "session_id": up.SessionID, "resource_id": "u", "kind": "user"},
	} {
		res := r.exec(alice, "cat data_one.csv", obj{"files": []obj{ref}})
		if res.Stdout != "a,b\n" || res.Stderr != "" || res.SessionID != up.SessionID || len(res.Files) != 1 {
			t.Fatalf("%v: %+v", ref, res)
		}
		f := res.Files[0]
		if !f.Inherited || f.ID != ref["id"] || f.StorageSessionID != up.SessionID || f.Name != ref["name"] || ref["kind"] != nil && (f.Kind != "user" || f.ResourceID != "u") {
			t.Errorf("echo = %+v", f)
		}
	}
	// The request's session stands in where the ref names none.
	res := r.exec(alice, "cat x", obj{"session_id": up.SessionID, "files": []obj{{"id": up.Files[0].FileID, "name": "x"}}})
	if res.Stdout != "a,b\n" {
		t.Errorf("%+v", res)
	}
	// A path is an id too.
	res = r.exec(alice, "cat y", obj{"files": []obj{{"id": "data one.csv", "name": "y", "session_id": up.SessionID}}})
	if res.Stdout != "a,b\n" {
		t.Errorf("%+v", res)
	}
	if a := r.get(alice, "/download/"+up.SessionID+"/"+up.Files[0].FileID); a.status != 200 {
		t.Errorf("the upload is gone after it was used: %d", a.status)
	}
}

func TestMissingInputsAreNamed(t *testing.T) {
	r := newRig(t)
	up := r.upload(alice, csv("a.csv", "1"))
	theirs := r.upload(mallory, csv("secret.csv", "s"))
	refs := []CodeFile{
		{ID: "x", Name: "never.csv", StorageSessionID: "AAAAAAAAAAAAAAAAAAAAA"},
		theirs.ref(0, "secret.csv"),
		{ID: "nope", Name: "other.csv", StorageSessionID: up.SessionID},
		{ID: "x", Name: "nowhere.csv"},
		{ID: up.Files[0].FileID, Name: "../../etc/passwd", StorageSessionID: up.SessionID},
		{ID: up.Files[0].FileID, Name: "bad\nname", StorageSessionID: up.SessionID},
		up.ref(0, "a.csv"),
		{ID: "x", Name: "never.csv", StorageSessionID: "BBBBBBBBBBBBBBBBBBBBB"},
	}
	res := r.exec(alice, "ls; echo warn >&2", obj{"files": refs})
	want := notAvailable + `never.csv, secret.csv, other.csv, nowhere.csv, ../../etc/passwd, "bad\nname"` + "\nwarn\n"
	if res.Stderr != want || res.Stdout != "a.csv\n" || res.SessionID != up.SessionID || fileNames(res.Files) != "(a.csv)" {
		t.Errorf("%+v\nstderr = %q\nwant     %q", res, res.Stderr, want)
	}
	// Somebody else's reads exactly like one that never was.
	own := r.exec(alice, "true", obj{"files": []CodeFile{{ID: "x", Name: "f", StorageSessionID: theirs.SessionID}}})
	never := r.exec(alice, "true", obj{"files": []CodeFile{{ID: "x", Name: "f", StorageSessionID: "AAAAAAAAAAAAAAAAAAAAA"}}})
	if own.Stderr != never.Stderr {
		t.Errorf("%q is not %q", own.Stderr, never.Stderr)
	}
}

func TestSeveralRefsOfOneName(t *testing.T) {
	r := newRig(t)
	one, two := r.upload(alice, csv("a.csv", "1")), r.upload(alice, csv("a.csv", "2"))
	stale := CodeFile{ID: "x", Name: "a.csv", StorageSessionID: "AAAAAAAAAAAAAAAAAAAAA"}
	for _, tt := range []struct {
		refs   []CodeFile
		stdout string
		stderr string
	}{
		{[]CodeFile{one.ref(0, "a.csv"), two.ref(0, "a.csv")}, "2", "several input files are named a.csv; the last one is used\n"},
		{[]CodeFile{two.ref(0, "a.csv"), one.ref(0, "a.csv")}, "1", "several input files are named a.csv; the last one is used\n"},
		{[]CodeFile{two.ref(0, "a.csv"), two.ref(0, "a.csv")}, "2", ""},
		{[]CodeFile{two.ref(0, "a.csv"), stale}, "2", ""},
	} {
		res := r.exec(alice, "cat a.csv", obj{"files": tt.refs})
		if res.Stdout != tt.stdout || res.Stderr != tt.stderr || fileNames(res.Files) != "(a.csv)" {
			t.Errorf("%+v: %+v", tt.refs, res)
		}
	}
	for _, s := range []stored{one, two} { // both stay what they were, wherever the runs went
		if a := r.get(alice, "/sessions/"+s.SessionID+"/objects/a.csv"); a.status != 200 {
			t.Errorf("%d %s", a.status, a.body)
		}
	}
}

// Names of which one needs a directory where another is a file.
func TestInputsInEachOthersWay(t *testing.T) {
	r := newRig(t)
	one := r.upload(alice, field{"kind", "", "agent"}, csv("q", "1"))
	two := r.upload(alice, field{"kind", "", "agent"}, csv("q/z", "2"), csv("q/y", "3"))
	q, z, y := one.ref(0, "q"), two.ref(0, "q/z"), two.ref(1, "q/y")
	const list = "find . -type f | sort | tr '\\n' ' '"
	for name, tt := range map[string]struct {
		refs           []CodeFile
		stdout, stderr string
	}{
		"the file first":   {[]CodeFile{q, z, y}, "./q/y ./q/z ", notAvailable + "q\nq cannot be placed: q/z needs a directory of that name\n"},
		"the file last":    {[]CodeFile{z, y, q}, "./q ", notAvailable + "q/z, q/y\nq/z cannot be placed: q is a file\nq/y cannot be placed: q is a file\n"},
		"the file between": {[]CodeFile{z, q, y}, "./q/y ./q/z ", notAvailable + "q\nq cannot be placed: q/y needs a directory of that name\n"},
	} {
		res := r.exec(alice, list, obj{"files": tt.refs})
		if res.Stdout != tt.stdout || res.Stderr != tt.stderr || len(res.Files) != strings.Count(tt.stdout, "./") {
			t.Errorf("%s: %+v", name, res)
		}
	}
	// What the session has stays, whatever the order.
	s := r.exec(alice, "printf mine > q").SessionID
	mine := CodeFile{ID: "q", Name: "q", StorageSessionID: s}
	for _, refs := range [][]CodeFile{{mine, z}, {z, mine}} {
		res := r.exec(alice, "cat q", obj{"session_id": s, "files": refs})
		if res.Stdout != "mine" || res.Stderr != notAvailable+"q/z\nq/z cannot be placed: q is a file\n" || fileNames(res.Files) != "(q)" {
			t.Errorf("%+v", res)
		}
	}
	// So does what no ref names: the backend finds out.
	if res := r.exec(alice, "cat q", obj{"session_id": s, "files": []CodeFile{z}}); res.Stdout != "mine" || res.Stderr != notAvailable+"q/z\n" {
		t.Errorf("below a file: %+v", res)
	}
	s = r.exec(alice, "mkdir q").SessionID
	if res := r.exec(alice, "ls -d q/.", obj{"session_id": s, "files": []CodeFile{q}}); res.Stdout != "q/.\n" || res.Stderr != notAvailable+"q\n" {
		t.Errorf("where a directory is: %+v", res)
	}
}

// Refs into several sessions: all are placed, each echo keeps its own session.
func TestRefsIntoSeveralSessions(t *testing.T) {
	r := newRig(t)
	agent := r.upload(alice, field{"kind", "", "agent"}, field{"id", "", "agent-1"}, csv("shared.txt", "agent"))
	skill := into[stored](t, r.send(alice, "/upload/batch", field{"kind", "", "skill"}, field{"id", "", "s1"}, field{"version", "", "7"}, field{"read_only", "", "true"},
		csv("demo/SKILL.md", "skill"), csv("demo/x.xsd", "xsd")), 200)
	own := r.upload(alice, csv("own.csv", "own"))
	version := int64(7)
	refs := []CodeFile{
		agent.ref(0, "shared.txt"),
		{ID: skill.Files[0].FileID, Name: "demo/SKILL.md", StorageSessionID: skill.SessionID, Kind: "skill", ResourceID: "s1", Version: &version},
		own.ref(0, "own.csv"),
	}
	res := r.exec(alice, "cat shared.txt demo/SKILL.md own.csv; echo edited > demo/SKILL.md; rm shared.txt; echo mine > own.csv", obj{"files": refs})
	if res.Stdout != "agentskillown" || res.SessionID != own.SessionID || res.Stderr != "" {
		t.Fatalf("%+v", res)
	}
	if fileNames(res.Files) != "own.csv (shared.txt) (demo/SKILL.md)" || len(res.DeletedFiles) != 0 {
		t.Fatalf("files = %s, deleted %v", fileNames(res.Files), res.DeletedFiles)
	}
	mod := res.Files[0]
	if mod.ID == refs[2].ID || mod.ModifiedFrom == nil || mod.ModifiedFrom.ID != refs[2].ID || mod.ModifiedFrom.StorageSessionID != own.SessionID {
		t.Errorf("modified = %+v", mod)
	}
	if e := res.Files[2]; e.ID != refs[1].ID || e.StorageSessionID != skill.SessionID || e.Kind != "skill" || *e.Version != 7 || e.ResourceID != "s1" {
		t.Errorf("echo = %+v", e)
	}
	// What is shared is untouched, and the next run gets it again.
	res = r.exec(alice, "cat shared.txt demo/SKILL.md", obj{"files": refs[:2], "session_id": own.SessionID})
	if res.Stdout != "agentskill" {
		t.Errorf("%+v", res)
	}
	if a := r.get(alice, "/download/"+own.SessionID+"/"+own.Files[0].FileID); a.status != 404 {
		t.Errorf("the id of the version before answers %d", a.status)
	}
	if a := r.get(alice, "/download/"+own.SessionID+"/"+mod.ID); string(a.body) != "mine\n" {
		t.Errorf("the new one answers %d %s", a.status, a.body)
	}
}

// Which session of its files a run goes on in.
func TestWhichSessionIsContinued(t *testing.T) {
	r := newRig(t)
	user := func(key string, fields ...field) stored { return r.upload(key, append(fields, csv("f", "x"))...) }
	plain := user(alice)
	for name, tt := range map[string]struct {
		up   stored
		ref  func(*CodeFile)
		want bool
	}{
		"an upload":           {up: plain, want: true},
		"of kind user":        {up: user(alice, field{"kind", "", "user"}, field{"id", "", "u1"}), want: true},
		"of kind agent":       {up: user(alice, field{"kind", "", "agent"}, field{"id", "", "a"})},
		"of kind skill":       {up: user(alice, field{"kind", "", "skill"}, field{"id", "", "s"})},
		"with an entity":      {up: user(alice, field{"entity_id", "", "agent_1"})},
		"with an odd entity":  {up: user(alice, field{"entity_id", "", "any thing!"})},
		"read only":           {up: user(alice, field{"read_only", "", "true"})},
		"not read only":       {up: user(alice, field{"read_only", "", "false"}), want: true},
		"Python's True":       {up: user(alice, field{"read_only", "", "True"})},
		"Python's False":      {up: user(alice, field{"read_only", "", "False"}), want: true},
		"of another user":     {up: user(bob)},
		"claimed to be agent": {up: plain, ref: func(f *CodeFile) { f.Kind = "agent" }},
		"claimed an entity":   {up: plain, ref: func(f *CodeFile) { f.EntityID = "e" }},
	} {
		f := tt.up.ref(0, "f")
		if tt.ref != nil {
			tt.ref(&f)
		}
		res := r.exec(alice, "cat f", obj{"files": []CodeFile{f}})
		if got := res.SessionID == tt.up.SessionID; got != tt.want || res.Stdout != "x" {
			t.Errorf("%s: continued %v, want %v; %+v", name, got, tt.want, res)
		}
	}
	// The session that is named explicitly comes first.
	other := r.exec(alice, "true").SessionID
	if res := r.exec(alice, "cat f", obj{"files": []CodeFile{plain.ref(0, "f")}, "session_id": other}); res.SessionID != other || res.Stdout != "x" {
		t.Errorf("%+v", res)
	}
	// Started by something else, it is copied from and not entered.
	r.shells.change(other, func(x *backend.Sandbox) { x.Metadata.Origin = "start" })
	if res := r.exec(alice, "cat f", obj{"files": []CodeFile{{ID: "f", Name: "f", SessionID: other}}}); res.SessionID == other || res.Stdout != "x" {
		t.Errorf("%+v", res)
	}
}

// Files of a session on another backend config are streamed over.
func TestRefsAcrossConfigs(t *testing.T) {
	r := newRig(t)
	up := r.upload(alice, csv("big.bin", strings.Repeat("x", 1<<20)), csv("two", "2"))
	r.configs = []string{"other", "main"}
	here := r.exec(alice, "true").SessionID
	refs := []CodeFile{up.ref(0, "big.bin"), up.ref(1, "two")}
	res := r.exec(alice, "wc -c < big.bin; cat two", obj{"files": refs, "session_id": here})
	if strings.TrimSpace(res.Stdout) != "1048576\n2" || res.SessionID != here || fileNames(res.Files) != "(big.bin) (two)" {
		t.Fatalf("%+v", res)
	}
	// What is there already is not sent again.
	r.shells.onRead = func() error { t.Error("read again"); return nil }
	r.exec(alice, "true", obj{"files": refs, "session_id": here})
	// What cannot be read when it is needed is missing, and fails nothing.
	r.shells.onRead = func() error { return &backend.Error{Kind: backend.KindUnavailable} }
	res = r.exec(alice, "rm -f big.bin two", obj{"session_id": here})
	if len(res.DeletedFiles) != 2 {
		t.Errorf("%+v", res)
	}
	res = r.exec(alice, "ls", obj{"files": refs, "session_id": here})
	if res.Stderr != notAvailable+"big.bin, two\n" || res.Stdout != "" || len(res.Files) != 0 {
		t.Errorf("%+v", res)
	}
}

// The session moved on: the program finds the current version under the name.
func TestStaleRefInItsOwnSession(t *testing.T) {
	r := newRig(t)
	up := r.upload(alice, csv("a.csv", "1"))
	r.exec(alice, "printf 2 > a.csv", obj{"files": []CodeFile{up.ref(0, "a.csv")}})
	res := r.exec(alice, "cat a.csv", obj{"files": []CodeFile{up.ref(0, "a.csv")}})
	if res.Stdout != "2" || res.Stderr != "" || len(res.Files) != 0 || res.SessionID != up.SessionID {
		t.Errorf("%+v", res)
	}
	// Elsewhere that version does not exist any more.
	other := r.exec(alice, "true").SessionID
	res = r.exec(alice, "cat a.csv 2>/dev/null", obj{"session_id": other, "files": []CodeFile{up.ref(0, "a.csv")}})
	if res.Stdout != "" || !strings.HasPrefix(res.Stderr, notAvailable+"a.csv\n") {
		t.Errorf("%+v", res)
	}
}

// A version that changes while it is read is never delivered as a mixture.
func TestContentIsVerified(t *testing.T) {
	r := newRig(t)
	up := r.upload(alice, csv("a", "12345"))
	f := r.finder(session.Owner{Tenant: "acme"})
	defer f.release()
	x, err := f.lookup(t.Context(), up.SessionID)
	if err != nil {
		t.Fatal(err)
	}
	e, err := f.file(t.Context(), x, up.Files[0].FileID)
	if err != nil {
		t.Fatal(err)
	}
	for content, want := range map[string]string{"12345": "12345", "12346": "", "1234": "", "123456": ""} {
		r.write(up.SessionID, "a", content)
		body, err := openVersion(t.Context(), x.Session, e)
		var got []byte
		if err == nil {
			got, err = io.ReadAll(body)
			body.Close()
		}
		if string(got) != want || (err == nil) != (want != "") {
			t.Errorf("content %q read as %q, %v", content, got, err)
		}
	}
}

func TestUsedUploadsAreMarked(t *testing.T) {
	r := newRig(t)
	used, unused := r.upload(alice, csv("a", "1")), r.upload(alice, csv("b", "2"))
	agent := r.upload(alice, field{"kind", "", "agent"}, csv("c", "3"))
	res := r.exec(alice, "true", obj{"files": []CodeFile{used.ref(0, "a"), agent.ref(0, "c")}})
	if res.SessionID != used.SessionID {
		t.Fatalf("%+v", res)
	}
	r.clock.advance(59 * 60e9)
	for _, s := range []stored{used, agent, unused} { // somebody looks at all of them: none is idle
		r.shells.change(s.SessionID, func(x *backend.Sandbox) { x.LastActive = r.clock.now() })
	}
	r.clock.advance(2 * 60e9)
	if rep, err := r.sessions.Sweep(t.Context()); err != nil || rep.Ended != 1 {
		t.Errorf("sweep = %+v, %v", rep, err)
	}
	if a := r.get(alice, "/files/"+unused.SessionID); string(a.body) != "[]\n" {
		t.Errorf("the unused upload is still there: %s", a.body)
	}
}

// Sessions made under a key may be used under the same key, as clients send the
// key alone on some calls and key and bearer on others.
func TestKeyOwnership(t *testing.T) {
	r := newRig(t)
	up := r.upload(both, csv("a", "1"))
	if a := r.get(service, "/files/"+up.SessionID); string(a.body) == "[]\n" {
		t.Error("the key alone does not see what the key and a bearer made")
	}
	if res := r.exec(service, "cat a", obj{"files": []CodeFile{up.ref(0, "a")}}); res.Stdout != "1" {
		t.Errorf("%+v", res)
	}
	made := r.exec(service, "true").SessionID
	if a := r.get(alice, "/files/"+made); string(a.body) != "[]\n" {
		t.Errorf("a bearer sees the key's session: %s", a.body)
	}
}

// A run that ended while one of its inputs was still being read is over: the reading ends
// with it.
func TestInputReadAtTheEnd(t *testing.T) {
	r := newRig(t)
	up := r.upload(alice, csv("a.csv", "1"))
	r.configs = []string{"other", "main"}
	here := r.exec(alice, "true").SessionID
	reading, left := make(chan struct{}), make(chan struct{})
	r.shells.onReading = func(ctx context.Context) {
		close(reading)
		<-ctx.Done()
	}
	r.shells.onRun = func(_ context.Context, spec backend.RunSpec, rio backend.RunIO) (backend.RunResult, error, bool) {
		in, err := rio.Input(slices.IndexFunc(spec.Inputs, func(in backend.Input) bool { return in.Chunked }))
		if err != nil {
			t.Error(err)
			return backend.RunResult{}, err, true
		}
		go func() {
			defer close(left)
			_, _ = io.Copy(io.Discard, in)
		}()
		<-reading
		_ = rio.Started()
		return backend.RunResult{Stop: backend.StopExit}, nil, true
	}
	r.exec(alice, "x", obj{"files": []CodeFile{up.ref(0, "a.csv")}, "session_id": here})
	select {
	case <-left:
	case <-time.After(10 * time.Second):
		t.Error("its input is still being read")
	}
}
