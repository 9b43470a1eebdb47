package clienttest

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
)

var nameRows = []row{
	{1, "a file uploaded as one name and told as another", func(t *testing.T, s server) {
		up := s.upload(t, fileNamed("my file (1).csv", "1,2"))
		res := s.run(t, "py", `print(open("/mnt/data/my_file__1_.csv").read())`, obj{"files": []ref{up.ref(0, "my_file__1_.csv")}})
		if res.Stdout != "1,2\n" || res.Stderr != "" {
			t.Errorf("%+v", res)
		}
	}},
	{2, "names in other scripts, composed and decomposed", func(t *testing.T, s server) {
		const composed, decomposed = "donn\u00e9es 数据.csv", "donne\u0301es 数据.csv"
		for _, name := range []string{composed, decomposed} {
			up := s.upload(t, fileNamed(name, "x"))
			if up.Files[0].Filename != composed {
				t.Errorf("%q is stored as %q", name, up.Files[0].Filename)
			}
			res := s.run(t, "py", `print(open(`+quoted(composed)+`).read())`, obj{"files": []ref{up.ref(0, name)}})
			if res.Stdout != "x\n" || res.Stderr != "" {
				t.Errorf("%q: %+v", name, res)
			}
			r := s.get(t, "/v1/download/"+up.SessionID+"/"+up.Files[0].FileID)
			if want := "filename*=UTF-8''donn%C3%A9es%20%E6%95%B0%E6%8D%AE.csv"; !strings.HasSuffix(r.header.Get("Content-Disposition"), want) {
				t.Errorf("%q downloads as %q", name, r.header.Get("Content-Disposition"))
			}
			if !strings.Contains(s.get(t, "/v1/files/"+up.SessionID+"?detail=full").body, `"original-filename":"`+composed+`"`) {
				t.Errorf("%q is not listed", name)
			}
		}
	}},
	{3, "a quote in a name arrives as %22", func(t *testing.T, s server) {
		up := s.upload(t, fileNamed(`my "q".csv`, "x"))
		if got := up.Files[0].Filename; got != `my %22q%22.csv` && got != `my "q".csv` {
			t.Errorf("stored as %q", got)
		}
		if s.download(t, up.ref(0, "")) != "x" {
			t.Error("it cannot be downloaded")
		}
	}},
	{4, "directories in a name", func(t *testing.T, s server) {
		up := s.upload(t, part{name: "kind", value: "skill"}, part{name: "id", value: "demo"}, part{name: "version", value: "1"},
			fileNamed("skills/demo/SKILL.md", "be good"))
		if up.Files[0].Filename != "skills/demo/SKILL.md" {
			t.Errorf("%+v", up)
		}
		res := s.run(t, "bash", "cat skills/demo/SKILL.md", obj{"files": []ref{up.ref(0, "skills/demo/SKILL.md")}})
		if res.Stdout != "be good" {
			t.Errorf("%+v", res)
		}
	}},
	{5, "names that lead out of the data directory", func(t *testing.T, s server) {
		up := s.upload(t, fileNamed("good.txt", "good"))
		for name, stays := range map[string]string{
			"../../etc/passwd": "", "a/../b": "", "a\x00b": "", "/etc/passwd": "passwd", `C:\x`: "x",
		} {
			r := s.sendForm(t, "/v1/upload", fileNamed(name, "evil"))
			if stays == "" {
				wantError(t, r, 400, "")
			} else if got := into[stored](t, r, 200).Files[0].Filename; got != stays {
				t.Errorf("upload of %q is stored as %q", name, got)
			}
			res := s.run(t, "bash", "grep -qs good /etc/passwd /b /x && echo escaped; ls -A /mnt; ls -A /mnt/data", obj{"files": []ref{up.ref(0, name)}})
			if !strings.HasPrefix(res.Stderr, unavailable) || res.Stdout != "data\ngood.txt\n" {
				t.Errorf("ref named %q: %+v", name, res)
			}
		}
	}},
	{17, "a relative and an absolute path are the same file", func(t *testing.T, s server) {
		for _, path := range []string{"plot.png", "/mnt/data/plot.png", "/mnt/data//plot.png", "./plot.png"} {
			if res := s.run(t, "py", `open(`+quoted(path)+`, "wb").write(b"\x89PNG")`); res.names() != "plot.png" || res.Files[0].ContentType != "image/png" {
				t.Errorf("%s: %+v", path, res)
			}
		}
	}},
	{19, "an output below directories", func(t *testing.T, s server) {
		res := s.run(t, "bash", "mkdir -p out/2026; echo 1,2 > out/2026/report.csv")
		if res.names() != "out/2026/report.csv" || s.download(t, res.Files[0]) != "1,2\n" {
			t.Errorf("%+v", res)
		}
		if l := s.get(t, "/v1/files/"+res.SessionID+"?detail=full"); !strings.Contains(l.body, `"original-filename":"out/2026/report.csv"`) {
			t.Errorf("listing: %s", l.body)
		}
	}},
	{34, "no dot and no slash in ids", func(t *testing.T, s server) {
		res := s.run(t, "bash", "echo 1 > abc.csv; mkdir d; echo 2 > d/abc.csv; echo 3 > .hidden")
		up := s.upload(t, fileNamed("abc.csv", "1"))
		for _, id := range []string{res.SessionID, res.Files[0].ID, res.Files[1].ID, up.SessionID, up.Files[0].FileID} {
			if !idRule.MatchString(id) {
				t.Errorf("id %q", id)
			}
		}
	}},
	{35, "no id is the beginning of another", func(t *testing.T, s server) {
		res := s.run(t, "bash", "for i in 1 2 3 4 5 6 7 8 9 10; do echo $i > f$i; done")
		for i, a := range res.Files {
			for j, b := range res.Files {
				if i != j && strings.HasPrefix(a.ID, b.ID) {
					t.Errorf("%q begins with %q", a.ID, b.ID)
				}
			}
		}
	}},
	{36, "queries of every generation on a download", func(t *testing.T, s server) {
		up := s.upload(t, part{name: "kind", value: "user"}, part{name: "id", value: "u"}, fileNamed("a", "bytes"))
		at := "/v1/download/" + up.SessionID + "/" + up.Files[0].FileID
		for query, want := range map[string]int{"": 200, "?entity_id=agent_1": 200, "?kind=user&id=u": 200, "?x=y": 200, "?kind=skill&id=u&version=1": 404} {
			if r := s.get(t, at+query); r.status != want || want == 200 && r.body != "bytes" {
				t.Errorf("%q: %d %s", query, r.status, r.body)
			}
		}
	}},
	{37, "downloads of no file, and of a directory", func(t *testing.T, s server) {
		id := s.run(t, "bash", "mkdir dir; echo > dir/f").SessionID
		wantError(t, s.get(t, "/v1/download/"+id), 400, "")
		wantError(t, s.get(t, "/v1/download/"+id+"/dir"), 404, "not_found")
	}},
	{38, "ten downloads at once right after the reply", func(t *testing.T, s server) {
		res := s.run(t, "bash", "for i in 1 2 3 4 5 6 7 8 9 10; do echo $i > f$i; done")
		done := make(chan error)
		for _, f := range res.Files {
			go func() {
				q, err := http.NewRequest(http.MethodGet, s.url+"/v1/download/"+f.StorageSessionID+"/"+f.ID, nil)
				if err == nil {
					q.Header.Set("X-API-Key", s.key)
					var r *http.Response
					if r, err = http.DefaultClient.Do(q); err == nil {
						if r.StatusCode != 200 {
							err = fmt.Errorf("%s of %s", r.Status, f.Name)
						}
						_ = r.Body.Close()
					}
				}
				done <- err
			}()
		}
		for range res.Files {
			if err := <-done; err != nil {
				t.Error(err)
			}
		}
	}},
	{73, "session ids of another server", func(t *testing.T, s server) {
		const id = "m_0123456789abcdef01234567"
		if res := s.run(t, "bash", "echo hi", obj{"session_id": id}); res.Stdout != "hi\n" || !idRule.MatchString(res.SessionID) {
			t.Errorf("%+v", res)
		}
		wantError(t, s.get(t, "/v1/download/"+id+"/f"), 404, "not_found")
		if r := s.get(t, "/v1/files/"+id+"?detail=summary"); r.status != 200 || strings.TrimSpace(r.body) != "[]" {
			t.Errorf("listing: %d %s", r.status, r.body)
		}
	}},
}
