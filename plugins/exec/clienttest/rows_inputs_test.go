package clienttest

import (
	"strings"
	"sync"
	"testing"
)

// nowhere is a ref to a session that never was.
func nowhere(name string) ref {
	return ref{ID: "AAAAAAAAAAAAAAAAAAAAA", Name: name, StorageSessionID: "AAAAAAAAAAAAAAAAAAAAA"}
}

const unavailable = "input files not available in this session: "

var inputRows = []row{
	{6, "two refs of one name", func(t *testing.T, s server) {
		one, two := s.upload(t, fileNamed("a.txt", "one")), s.upload(t, fileNamed("a.txt", "two"))
		res := s.run(t, "bash", "cat a.txt", obj{"files": []ref{one.ref(0, "a.txt"), two.ref(0, "a.txt")}})
		if res.Stdout != "two" || !strings.Contains(res.Stderr, "several input files are named a.txt") {
			t.Errorf("%+v", res)
		}
	}},
	{7, "one ref twice", func(t *testing.T, s server) {
		f := s.upload(t, fileNamed("a.txt", "one")).ref(0, "a.txt")
		if res := s.run(t, "bash", "cat a.txt", obj{"files": []ref{f, f}}); res.Stdout != "one" || res.Stderr != "" || res.names() != "(a.txt)" {
			t.Errorf("%+v", res)
		}
	}},
	{8, "a ref without a session, in the request's", func(t *testing.T, s server) {
		first := s.run(t, "bash", "echo 1 > a.txt")
		res := s.run(t, "bash", "cat b.txt", obj{"session_id": first.SessionID, "files": []obj{{"id": first.Files[0].ID, "name": "b.txt"}}})
		if res.Stdout != "1\n" || res.Stderr != "" {
			t.Errorf("%+v", res)
		}
		// Without either it is unavailable, which fails nothing.
		res = s.run(t, "bash", "echo on", obj{"files": []obj{{"id": first.Files[0].ID, "name": "b.txt"}}})
		if res.Stdout != "on\n" || res.Stderr != unavailable+"b.txt\n" {
			t.Errorf("%+v", res)
		}
	}},
	{9, "refs to files that are gone", func(t *testing.T, s server) {
		res := s.run(t, "bash", "echo on", obj{"files": []ref{nowhere("a.csv"), nowhere("b.csv")}})
		if res.Stdout != "on\n" || res.Stderr != unavailable+"a.csv, b.csv\n" || len(res.Files) != 0 {
			t.Errorf("%+v", res)
		}
	}},
	{11, "refs into three sessions", func(t *testing.T, s server) {
		var files []ref
		for _, name := range []string{"a", "b", "c"} {
			up := s.upload(t, part{name: "kind", value: "user"}, part{name: "id", value: "u-" + name}, fileNamed(name, name))
			f := up.ref(0, name)
			f.Kind, f.ResourceID = "user", "u-"+name
			files = append(files, f)
		}
		res := s.run(t, "bash", "cat a b c", obj{"files": files})
		if res.Stdout != "abc" || res.Stderr != "" || res.names() != "(a) (b) (c)" {
			t.Errorf("%+v", res)
		}
		for k, f := range res.Files {
			if f.ID != files[k].ID || f.StorageSessionID != files[k].StorageSessionID || f.Kind != "user" || f.ResourceID != files[k].ResourceID {
				t.Errorf("%+v came back as %+v", files[k], f)
			}
		}
	}},
	{12, "an input that is only read", func(t *testing.T, s server) {
		up := s.upload(t, fileNamed("a.txt", "one"))
		if res := s.run(t, "py", `print(open("a.txt").read())`, obj{"files": []ref{up.ref(0, "a.txt")}}); res.Stdout != "one\n" || res.names() != "(a.txt)" {
			t.Errorf("%+v", res)
		}
	}},
	{13, "an input that is changed in place", func(t *testing.T, s server) {
		up := s.upload(t, fileNamed("a.txt", "old"))
		in := up.ref(0, "a.txt")
		res := s.run(t, "py", `open("a.txt", "w").write("new")`, obj{"files": []ref{in}})
		f := res.file(t, "a.txt")
		if f.Inherited || f.ID == in.ID || f.ModifiedFrom == nil || f.ModifiedFrom.ID != in.ID || f.ModifiedFrom.StorageSessionID != in.StorageSessionID {
			t.Errorf("%+v", f)
		}
		if got := s.download(t, f); got != "new" {
			t.Errorf("downloaded %q", got)
		}
		if r := s.get(t, "/v1/download/"+in.StorageSessionID+"/"+in.ID); r.status != 404 && (r.status != 200 || r.body != "old") {
			t.Errorf("the old id: %d %q", r.status, r.body)
		}
		// The stale ref goes on working: the program finds the name that it was told.
		if res = s.run(t, "bash", "cat a.txt", obj{"files": []ref{in}}); res.Stdout == "" {
			t.Errorf("%+v", res)
		}
	}},
	{14, "an edit of a read-only file", func(t *testing.T, s server) {
		up := s.upload(t, part{name: "kind", value: "skill"}, part{name: "id", value: "s1"}, part{name: "version", value: "3"},
			part{name: "read_only", value: "true"}, fileNamed("skills/s/SKILL.md", "rules"))
		in := up.ref(0, "skills/s/SKILL.md")
		version := int64(3)
		in.Kind, in.ResourceID, in.Version = "skill", "s1", &version
		res := s.run(t, "bash", "chmod u+w skills/s/SKILL.md; echo mine > skills/s/SKILL.md; echo out > out.txt; cat skills/s/SKILL.md", obj{"files": []ref{in}})
		echo := res.file(t, "skills/s/SKILL.md")
		if res.names() != "out.txt (skills/s/SKILL.md)" || echo.ID != in.ID || echo.Kind != "skill" || echo.Version == nil || *echo.Version != 3 || res.SessionID == up.SessionID {
			t.Errorf("%+v", res)
		}
		if got := s.download(t, in); got != "rules" {
			t.Errorf("the original is %q now", got)
		}
		if r := s.get(t, "/v1/sessions/"+up.SessionID+"/objects/"+in.ID+"?kind=skill&id=s1&version=3"); !strings.Contains(r.body, `"readOnly":true`) {
			t.Errorf("%s", r.body)
		}
	}},
	{16, "a bad name among good ones in a batch", func(t *testing.T, s server) {
		got := into[stored](t, s.sendForm(t, "/v1/upload/batch",
			fileNamed("demo/SKILL.md", "1"), fileNamed("../evil", "2"), fileNamed("demo/schema.xsd", "3")), 200)
		if got.Message != "partial_success" || got.Succeeded != 2 || got.Failed != 1 || len(got.Files) != 3 || got.StorageSessionID == "" ||
			got.Files[0].Status != "success" || got.Files[1].Status != "error" || got.Files[1].Filename != "../evil" || got.Files[1].Error == "" || got.Files[2].Filename != "demo/schema.xsd" {
			t.Errorf("%+v", got)
		}
		all := s.sendForm(t, "/v1/upload/batch", fileNamed("../evil", "2"))
		if e := into[obj](t, all, 400); e["message"] != "error" || e["failed"] != 1.0 {
			t.Errorf("%s", all.body)
		}
	}},
	{31, "freshness is the time of use", func(t *testing.T, s server) {
		// That it is not the time of creation takes days: TestListing of plugins/exec.
		res := s.run(t, "bash", "echo 1 > a")
		l := into[[]obj](t, s.get(t, "/v1/files/"+res.SessionID+"?detail=summary"), 200)
		o := into[obj](t, s.get(t, "/v1/sessions/"+res.SessionID+"/objects/"+res.Files[0].ID), 200)
		if len(l) != 1 || !recent(t, l[0]["lastModified"]) || !recent(t, o["lastModified"]) || l[0]["name"] != res.SessionID+"/"+res.Files[0].ID {
			t.Errorf("%v %v", l, o)
		}
	}},
	{32, "a listing of nothing", func(t *testing.T, s server) {
		for _, detail := range []string{"", "?detail=summary", "?detail=full&kind=skill&id=sk1&version=7", "?detail=normalized"} {
			if r := s.get(t, "/v1/files/AAAAAAAAAAAAAAAAAAAAA"+detail); r.status != 200 || strings.TrimSpace(r.body) != "[]" {
				t.Errorf("%q: %d %s", detail, r.status, r.body)
			}
		}
	}},
	{33, "every listed file has metadata", func(t *testing.T, s server) {
		res := s.run(t, "bash", "echo 1 > a.csv; mkdir d; : > d/b")
		for _, detail := range []string{"", "?detail=simple", "?detail=summary", "?detail=full", "?detail=normalized"} {
			l := into[[]obj](t, s.get(t, "/v1/files/"+res.SessionID+detail), 200)
			if len(l) != 2 {
				t.Errorf("%q: %v", detail, l)
			}
			for _, f := range l {
				m, ok := f["metadata"].(obj)
				if !ok || m["original-filename"] == "" || m["content-type"] == "" || f["id"] == "" || f["storage_session_id"] != res.SessionID {
					t.Errorf("%q: %v", detail, f)
				}
			}
		}
	}},
	{49, "what the next run finds", func(t *testing.T, s server) {
		first := s.run(t, "bash", "echo kept > a; echo lost > /tmp/b; mkdir d; cd d; export X=1; sleep 60 & true")
		for _, more := range []obj{{"session_id": first.SessionID}, {"files": first.Files}} {
			res := s.run(t, "bash", `cat a; cat /tmp/b 2>/dev/null; pwd; echo "X=$X"`, more)
			if res.Stdout != "kept\n/mnt/data\nX=\n" {
				t.Errorf("%+v", res)
			}
		}
	}},
	{50, "two runs of one session at once", func(t *testing.T, s server) {
		id := s.run(t, "bash", "echo 0 > n").SessionID
		var both sync.WaitGroup
		for range 2 {
			both.Go(func() {
				if res := s.run(t, "bash", "n=$(cat n); sleep 0.3; echo $((n+1)) > n", obj{"session_id": id}); res.SessionID != id || *res.Code != 0 {
					t.Errorf("%+v", res)
				}
			})
		}
		both.Wait()
		if res := s.run(t, "bash", "cat n", obj{"session_id": id}); res.Stdout != "2\n" {
			t.Errorf("%+v", res)
		}
	}},
	{63, "an object deleted twice", func(t *testing.T, s server) {
		up := s.upload(t, part{name: "kind", value: "user"}, part{name: "id", value: "u"}, fileNamed("a", "1"), fileNamed("b", "2"))
		for k, path := range []string{"/v1/sessions/" + up.SessionID + "/objects/", "/v1/files/" + up.SessionID + "/"} {
			at := path + up.Files[k].FileID + "?kind=user&id=u"
			if r := s.send(t, "DELETE", at, nil, nil); r.status != 204 || r.body != "" {
				t.Errorf("DELETE %s: %d %s", at, r.status, r.body)
			}
			wantError(t, s.send(t, "DELETE", at, nil, nil), 404, "not_found")
			wantError(t, s.get(t, "/v1/download/"+up.SessionID+"/"+up.Files[k].FileID), 404, "not_found")
		}
	}},
	{72, "an entity at the upload and none at the download", func(t *testing.T, s server) {
		for _, fields := range [][]part{
			{{name: "entity_id", value: "agent_1"}},
			{{name: "kind", value: "agent"}, {name: "id", value: "agent_1"}},
		} {
			up := s.upload(t, append(fields, fileNamed("a.txt", "shared"))...)
			if got := s.download(t, up.ref(0, "a.txt")); got != "shared" {
				t.Errorf("%v: %q", fields, got)
			}
			if res := s.run(t, "bash", "cat a.txt", obj{"files": []ref{up.ref(0, "a.txt")}}); res.Stdout != "shared" || res.SessionID == up.SessionID {
				t.Errorf("%v: %+v", fields, res)
			}
		}
	}},
}
