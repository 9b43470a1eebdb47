package exec

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/caisson-run/caisson/host"
	"github.com/caisson-run/caisson/sdk/backend"
)

func TestDownload(t *testing.T) {
	r := newRig(t)
	res := r.exec(alice, "mkdir 'dir é'; printf 0123456789 > 'dir é/data \"1\" 数.csv'; : > empty.html; printf x > .bashrc")
	if len(res.Files) != 3 {
		t.Fatalf("%+v", res)
	}
	data := res.Files[1]
	at := "/v1/download/" + res.SessionID + "/"
	for _, p := range []string{
		data.ID, "dir%20%C3%A9/data%20%221%22%20%E6%95%B0.csv", "dir%20%C3%A9%2Fdata%20%221%22%20%E6%95%B0.csv",
		data.ID + "?entity_id=agent_1", data.ID + "?kind=user&id=u",
	} {
		a := r.get(alice, at+p)
		if a.status != 200 || string(a.body) != "0123456789" {
			t.Errorf("%s: %d %s", p, a.status, a.body)
		}
		for k, v := range map[string]string{
			"Content-Type": "text/csv", "Content-Length": "10", "X-Content-Type-Options": "nosniff", "Accept-Ranges": "bytes",
			"Content-Disposition": `attachment; filename="data _1_ _.csv"; filename*=UTF-8''data%20%221%22%20%E6%95%B0.csv`,
		} {
			if a.header.Get(k) != v {
				t.Errorf("%s: %s = %q, want %q", p, k, a.header.Get(k), v)
			}
		}
		for k := range a.header {
			switch k {
			case "Content-Type", "Content-Length", "X-Content-Type-Options", "Content-Disposition", "Accept-Ranges", "Etag", "Last-Modified", "Date", "Cache-Control":
			default:
				t.Errorf("unexpected header %s", k) // clients pass them on to a browser
			}
		}
	}
	if a := r.get(alice, at+res.Files[2].ID); a.status != 200 || len(a.body) != 0 || a.header.Get("Content-Type") != "text/html" || a.header.Get("Content-Length") != "0" {
		t.Errorf("empty: %d %v", a.status, a.header)
	}
	if a := r.do(r.request("HEAD", alice, at+data.ID, nil)); a.status != 200 || a.header.Get("Content-Length") != "10" || len(a.body) != 0 {
		t.Errorf("HEAD: %d %v", a.status, a.header)
	}
	for rng, want := range map[string]string{"bytes=2-4": "234", "bytes=-3": "789", "bytes=9-": "9", "bytes=0-": "0123456789"} {
		q := r.request("GET", alice, at+data.ID, nil)
		q.Header.Set("Range", rng)
		if a := r.do(q); a.status != 206 || string(a.body) != want {
			t.Errorf("%s: %d %q, want %q", rng, a.status, a.body, want)
		}
	}
	q := r.request("GET", alice, at+data.ID, nil)
	q.Header.Set("Range", "bytes=5-6,1-2")
	if a := r.do(q); a.status != 200 || string(a.body) != "0123456789" {
		t.Errorf("two ranges: %d %q", a.status, a.body)
	}
	q = r.request("GET", alice, at+data.ID, nil)
	q.Header.Set("Range", "lines=1-2")
	if a := r.do(q); a.status != 200 || string(a.body) != "0123456789" {
		t.Errorf("a range of something unknown: %d %q", a.status, a.body)
	}
	q = r.request("GET", alice, at+data.ID, nil)
	q.Header.Set("Range", "bytes=10-")
	beyond := r.do(q)
	if e := into[obj](t, beyond, 416); e["code"] != "range_not_satisfiable" || e["status"] != 416.0 || beyond.header.Get("Content-Range") != "bytes */10" ||
		beyond.header.Get("Content-Type") != "application/json" || beyond.header.Get("Content-Disposition") != "" {
		t.Errorf("beyond the end: %v %s", beyond.header, beyond.body)
	}
	q = r.request("GET", alice, at+data.ID, nil)
	q.Header.Set("If-None-Match", r.get(alice, at+data.ID).header.Get("ETag"))
	if a := r.do(q); a.status != 304 {
		t.Errorf("unchanged: %d", a.status)
	}
}

func TestDownloadsThatAreNotThere(t *testing.T) {
	r := newRig(t)
	res := r.exec(alice, "mkdir dir; echo x > dir/f; ln -s /etc/passwd link; ln -s dir dirlink")
	s := res.SessionID
	theirs := r.exec(mallory, "echo s > secret")
	for p, want := range map[string]int{
		s: 400, s + "/": 400, s + "/dir": 404, s + "/nope": 404, s + "/link": 404, s + "/dirlink/f": 404,
		s + "/AAAAAAAAAAAAAAAAAAAAA": 404, "AAAAAAAAAAAAAAAAAAAAA/x": 404, "m_0123456789abcdef01234567/x": 404, "a%20b/x": 404,
		theirs.SessionID + "/" + theirs.Files[0].ID: 404, theirs.SessionID + "/secret": 404,
		s + "/%2e%2e%2f%2e%2e%2fetc%2fpasswd": 404, s + "/dir%2f..%2fdir%2ff": 404, s + "/%00": 404,
	} {
		a := r.get(alice, "/v1/exec/download/"+p)
		if a.status != want {
			t.Errorf("%s: %d %s", p, a.status, a.body)
		}
		if want == 404 {
			if e := into[obj](t, a, 404); e["error"] != "File not found" || e["status"] != 404.0 {
				t.Errorf("%s: %v", p, e)
			}
		}
	}
	r.shells.onList = func() error { return &backend.Error{Kind: backend.KindUnavailable, Message: "10.1.2.3"} }
	if a := r.get(alice, "/download/"+s+"/"+res.Files[0].ID); a.status != 503 || strings.Contains(string(a.body), "10.1") {
		t.Errorf("%d %s", a.status, a.body)
	}
}

// An answer whose file changes under it breaks off instead of ending wrong.
func TestDownloadOfAChangingFile(t *testing.T) {
	r := newRig(t)
	res := r.exec(alice, "head -c 300000 /dev/zero > f")
	r.shells.onRead = func() error {
		r.write(res.SessionID, "f", strings.Repeat("x", 300000))
		return nil
	}
	q := r.request("GET", alice, "/download/"+res.SessionID+"/"+res.Files[0].ID, nil)
	resp, err := http.DefaultClient.Do(q)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	n := 0
	buf := make([]byte, 4096)
	for err == nil {
		var k int
		k, err = resp.Body.Read(buf)
		n += k
	}
	if n >= 300000 || err.Error() == "EOF" {
		t.Errorf("%d bytes of another version, then %v", n, err)
	}
	http.DefaultClient.CloseIdleConnections()
}

func TestDownloadsInParallel(t *testing.T) {
	r := newRig(t)
	res := r.exec(alice, "for i in 0 1 2 3 4 5 6 7 8 9; do echo $i > f$i; done")
	var wg sync.WaitGroup
	for _, f := range res.Files {
		wg.Go(func() {
			if a := r.get(alice, "/download/"+res.SessionID+"/"+f.ID); a.status != 200 || "f"+string(a.body) != f.Name+"\n" {
				t.Errorf("%s: %d %q", f.Name, a.status, a.body)
			}
		})
	}
	wg.Wait()
}

func TestListing(t *testing.T) {
	r := newRig(t)
	up := r.upload(alice, field{"kind", "", "user"}, field{"id", "", "u1"}, csv("dir/data one.csv", "1"))
	id := up.SessionID + "/" + up.Files[0].FileID
	r.clock.advance(3 * time.Hour)
	r.exec(alice, "mkdir __pycache__; echo > __pycache__/x; ln -s / root", obj{"session_id": up.SessionID})
	want := listed{
		Name: id, ID: up.Files[0].FileID, SessionID: up.SessionID, StorageSessionID: up.SessionID, Size: 1,
		ContentType: "text/csv", LastModified: "2026-01-02T06:04:05.000Z",
		Metadata: metadata{OriginalFilename: "dir/data one.csv", ContentType: "text/csv"},
	}
	for _, q := range []string{"", "?detail=simple", "?detail=summary", "?detail=full", "?detail=full&entity_id=e", "?detail=full&kind=user&id=u1&version=3"} {
		l := into[[]listed](t, r.get(alice, "/v1/files/"+up.SessionID+q), 200)
		if len(l) != 1 || l[0].ETag == "" {
			t.Fatalf("%s: %+v", q, l)
		}
		l[0].ETag = ""
		if l[0] != want {
			t.Errorf("%s: %+v, want %+v", q, l[0], want)
		}
	}
	if l := into[[]listed](t, r.get(alice, "/files/"+up.SessionID+"?detail=normalized"), 200); l[0].Name != "dir/data one.csv" {
		t.Errorf("normalized: %+v", l)
	}
	for _, p := range []string{"AAAAAAAAAAAAAAAAAAAAA", "x", "a%20b", up.SessionID + "?kind=agent&id=u1", up.SessionID + "?kind=user&id=u2"} {
		if a := r.get(alice, "/files/"+p); a.status != 200 || string(a.body) != "[]\n" {
			t.Errorf("%s: %d %s", p, a.status, a.body)
		}
	}
	if a := r.get(mallory, "/files/"+up.SessionID); string(a.body) != "[]\n" {
		t.Errorf("mallory sees %s", a.body)
	}
	if n := r.shells.connects.Load(); n != 1 {
		t.Errorf("listing connected: %d", n)
	}
	r.shells.onList = func() error { return &backend.Error{Kind: backend.KindUnavailable} }
	if a := r.get(alice, "/files/"+up.SessionID); a.status != 503 {
		t.Errorf("a listing that is not known answers %d %s", a.status, a.body)
	}
}

func TestObjects(t *testing.T) {
	r := newRig(t)
	up := r.upload(alice, field{"kind", "", "skill"}, field{"id", "", "s1"}, field{"version", "", "2"}, csv("demo/SKILL.md", "# x"))
	p := "/v1/sessions/" + up.SessionID + "/objects/" + up.Files[0].FileID
	o := into[obj](t, r.get(alice, p+"?kind=skill&id=s1&version=2"), 200)
	want := obj{
		"name": up.SessionID + "/" + up.Files[0].FileID, "originalFilename": "demo/SKILL.md", "size": 3.0, "contentType": "text/markdown",
		"lastModified": "2026-01-02T03:04:05.000Z", "readOnly": true,
	}
	for k, v := range want {
		if o[k] != v {
			t.Errorf("%s = %v, want %v", k, o[k], v)
		}
	}
	for _, q := range []string{"?kind=skill&id=s1&version=3", "?kind=user&id=s1", "?id=s2"} {
		into[obj](t, r.get(alice, p+q), 404)
	}
	into[obj](t, r.get(mallory, p), 404)
	into[obj](t, r.get(alice, "/sessions/"+up.SessionID+"/objects/"), 404)
	into[obj](t, r.get(alice, "/sessions/"+up.SessionID+"/objects/nope"), 404)
}

func TestDelete(t *testing.T) {
	r := newRig(t)
	for _, format := range []string{"/sessions/%s/objects/%s?kind=user&id=u", "/v1/exec/files/%s/%s?kind=user&id=u"} {
		up := r.upload(alice, field{"kind", "", "user"}, field{"id", "", "u"}, csv("dir/a.csv", "1"), csv("b.csv", "2"))
		p := fmt.Sprintf(format, up.SessionID, up.Files[0].FileID)
		if a := r.do(r.request("DELETE", mallory, p, nil)); a.status != 404 {
			t.Errorf("mallory deletes %s: %d", p, a.status)
		}
		if a := r.do(r.request("DELETE", alice, "/files/"+up.SessionID+"/dir", nil)); a.status != 404 {
			t.Errorf("a directory: %d", a.status)
		}
		if a := r.do(r.request("DELETE", alice, p, nil)); a.status != 204 || len(a.body) != 0 {
			t.Errorf("%s: %d %s", p, a.status, a.body)
		}
		into[obj](t, r.do(r.request("DELETE", alice, p, nil)), 404)
		into[obj](t, r.get(alice, "/download/"+up.SessionID+"/"+up.Files[0].FileID), 404)
		if a := r.get(alice, "/download/"+up.SessionID+"/"+up.Files[1].FileID); a.status != 200 {
			t.Errorf("the other file answers %d", a.status)
		}
	}
}

// One of several requests to delete a file deletes it, and it leaves the quota once.
func TestDeletesAtOnce(t *testing.T) {
	r := newRig(t, func(o *Options) { o.QuotaFiles = 4 })
	up := r.upload(alice, csv("a", "1"), csv("b", "1"), csv("c", "1"), csv("d", "1"))
	r.shells.onRemove = func() error { time.Sleep(300 * time.Millisecond); return nil } // others find the file meanwhile
	var deleted, absent atomic.Int64
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			switch a := r.do(r.request("DELETE", alice, "/files/"+up.SessionID+"/a", nil)); a.status {
			case 204:
				deleted.Add(1)
			case 404:
				absent.Add(1)
			default:
				t.Errorf("%d %s", a.status, a.body)
			}
		})
	}
	wg.Wait()
	if deleted.Load() != 1 || absent.Load() != 7 {
		t.Errorf("%d deleted it, for %d it was not there", deleted.Load(), absent.Load())
	}
	into[obj](t, r.send(alice, "/upload", csv("e", "1"), csv("f", "1")), 429)
	r.upload(alice, csv("e", "1"))
	if len(r.removals.held) != 0 {
		t.Errorf("claims are left: %v", r.removals.held)
	}
}

// A claim is waited for no longer than its context.
func TestClaims(t *testing.T) {
	var c claims
	giveBack, err := c.take(t.Context(), "a")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := c.take(ctx, "a"); !errors.Is(err, context.Canceled) {
		t.Errorf("a claim that somebody has: %v", err)
	}
	other, err := c.take(ctx, "b")
	if err != nil {
		t.Fatal(err)
	}
	other()
	giveBack()
	if giveBack, err = c.take(ctx, "a"); err != nil {
		t.Fatal(err)
	}
	giveBack()
}

// A file that a program gave an odd name is reached by its id and by its name.
func TestOddNames(t *testing.T) {
	r := newRig(t)
	names := []string{"e\u0301.txt", " ", "-rf", "a?b#c%20d", strings.Repeat("n", 255)}
	res := r.exec(alice, `for n; do printf %s "$n" > "./$n"; done`, obj{"args": names})
	if len(res.Files) != len(names) {
		t.Fatalf("%+v", res)
	}
	for _, f := range res.Files {
		for _, id := range []string{f.ID, url.PathEscape(f.Name)} {
			if a := r.get(alice, "/download/"+res.SessionID+"/"+id); a.status != 200 || string(a.body) != f.Name {
				t.Errorf("%q by %s: %d %q", f.Name, id, a.status, a.body)
			}
		}
	}
	again := r.exec(alice, "true", obj{"session_id": res.SessionID, "files": res.Files})
	if n := len(again.Files); n != len(names) || again.Stderr != "" {
		t.Errorf("%d echoes: %s; stderr %q", n, fileNames(again.Files), again.Stderr)
	}
}

// Somebody's file in a cache directory is found by its id all the same.
func TestUploadsIntoCaches(t *testing.T) {
	r := newRig(t)
	up := r.upload(alice, csv(".config/app.toml", "x = 1"), csv("a", "1"))
	if a := r.get(alice, "/download/"+up.SessionID+"/"+up.Files[0].FileID); a.status != 200 || string(a.body) != "x = 1" {
		t.Errorf("%d %s", a.status, a.body)
	}
}

func TestHealth(t *testing.T) {
	r := newRig(t)
	if h := into[health](t, r.get("", "/v1/exec/health"), 200); h.Status != "ok" {
		t.Errorf("%+v", h)
	}
	r.ready = &backend.Error{Kind: backend.KindUnavailable, Message: "dial /run/secret.sock"}
	if h := into[health](t, r.get("", "/health"), 200); h.Status != "ok" {
		t.Errorf("asked again within a moment: %+v", h)
	}
	for err, want := range map[error]string{r.ready: "sandbox_unavailable", os.ErrClosed: "not_ready"} {
		r.ready = err
		r.clock.advance(2 * time.Second)
		a := r.get("", "/v1/health")
		if h := into[health](t, a, 503); h.Reason != want || h.Status != "unavailable" || strings.Contains(string(a.body), "secret") {
			t.Errorf("%s", a.body)
		}
	}
	// Nor would a run succeed where nobody is let in.
	r.ready = nil
	for err, want := range map[error]string{
		&host.HTTPError{Status: 503, Code: "not_configured"}:   "not_configured",
		&host.HTTPError{Status: 503, Code: "auth_unavailable"}: "not_ready",
		os.ErrClosed: "not_ready",
	} {
		r.admits = err
		r.clock.advance(2 * time.Second)
		if h := into[health](t, r.get("", "/health"), 503); h.Reason != want {
			t.Errorf("admission %v: %+v", err, h)
		}
	}
	r.admits = nil
	r.clock.advance(2 * time.Second)
	if h := into[health](t, r.get("", "/health"), 200); h.Status != "ok" {
		t.Errorf("%+v", h)
	}
	r.clock.advance(2 * time.Second)
	r.queue.Close()
	if h := into[health](t, r.get("", "/health"), 503); h.Reason != "stopping" {
		t.Errorf("%+v", h)
	}
}
