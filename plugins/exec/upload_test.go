package exec

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/caisson-run/caisson/host"
	"github.com/caisson-run/caisson/sdk/backend"
)

func TestUploadNames(t *testing.T) {
	r := newRig(t)
	for sent, want := range map[string]string{
		"my file (1).csv": "my file (1).csv", "données 数据 %22q%22.csv": "données 数据 %22q%22.csv", "donne\u0301es.csv": "données.csv",
		"skills/demo/SKILL.md": "skills/demo/SKILL.md", "/etc/passwd": "passwd", `C:\dir\x.csv`: "x.csv", "a..b": "a..b", "x.lock": "x.lock", "noext": "noext",
	} {
		up := r.upload(alice, csv(sent, "content"))
		if up.Files[0].Filename != want || len(up.Files[0].FileID) != 21 {
			t.Errorf("%q: %+v", sent, up.Files)
		}
		if got := r.content(up.SessionID, want); got != "content" {
			t.Errorf("%q: stored %q", sent, got)
		}
	}
	n := r.shells.created.Load()
	for _, sent := range []string{"../../etc/passwd", "a/../b", "..", ".", "a/b/../../../c", strings.Repeat("d/", 20) + "x"} {
		e := into[obj](t, r.send(alice, "/upload", csv(sent, "x")), 400)
		if s := e["error"].(string); !strings.HasPrefix(s, "the file name ") {
			t.Errorf("%q: %v", sent, e)
		}
	}
	if r.shells.created.Load() != n {
		t.Error("a refused name leased a sandbox")
	}
}

func TestUploadFields(t *testing.T) {
	r := newRig(t)
	up := r.upload(alice, field{"kind", "", "skill"}, field{"id", "", "s:1"}, field{"version", "", "3"}, field{"read_only", "", "true"},
		field{"whatever", "", strings.Repeat("x", 10000)}, csv("a", "1"))
	sb := r.shells.live()[0]
	for k, v := range map[string]string{labelKind: "skill", labelID: "s:1", labelVersion: "3", labelReadOnly: "true"} {
		if sb.Metadata.Labels[k] != v {
			t.Errorf("label %s = %q, want %q", k, sb.Metadata.Labels[k], v)
		}
	}
	if sb.Metadata.Origin != "upload" || sb.Metadata.Tenant != "acme" || sb.Metadata.User != "alice" {
		t.Errorf("%+v", sb.Metadata)
	}
	if e, err := r.shells.Stat(t.Context(), r.box(up.SessionID), "/mnt/data/a"); err != nil || e.Mode != 0o444 {
		t.Errorf("entry = %+v, %v", e, err)
	}
	for _, tt := range []struct {
		parts []field
		error string
	}{
		{[]field{{"kind", "", "admin"}, csv("a", "1")}, "kind must be one of: skill, agent, user"},
		{[]field{{"id", "", "a b"}, csv("a", "1")}, "id may hold"},
		{[]field{{"version", "", "new"}, csv("a", "1")}, "version must be an integer"},
		{[]field{{"id", "", strings.Repeat("x", 5000)}, csv("a", "1")}, "longer than 4096 bytes"},
		{[]field{{"read_only", "", "maybe"}, csv("a", "1")}, "read_only must be true or false"},
		{[]field{csv("a", "1"), {"read_only", "", "true"}}, "read_only must come before the files"},
		{[]field{{"kind", "", "user"}}, "No files provided"},
		{[]field{}, "No files provided"},
		{[]field{{"file", "", "text without a name"}}, "a file part has no file name"},
		{[]field{csv("a", "1"), csv("a", "2")}, "two files of the request are named a"},
	} {
		e := into[obj](t, r.send(alice, "/upload", tt.parts...), 400)
		if s := e["error"].(string); !strings.Contains(s, tt.error) {
			t.Errorf("%v: %v", tt.parts, e)
		}
	}
	if n := len(r.shells.live()); n != 1 {
		t.Errorf("%d sandboxes, want the first upload's", n)
	}
}

// The log tells the answer of an upload from what it stored.
func TestUploadsInTheLog(t *testing.T) {
	r := newRig(t)
	a := r.send(alice, "/upload", csv("a", "12345"), csv("b", "678"))
	into[obj](t, a, 200)
	want := fmt.Sprintf(" bytes=%d ", len(a.body))
	waitFor(t, func() bool { return strings.Contains(r.log.String(), "status=200") })
	if log := r.log.String(); strings.Count(log, " bytes=") != 1 || !strings.Contains(log, want) || !strings.Contains(log, " files=2 stored=8 ") {
		t.Errorf("%q is missing in\n%s", want, log)
	}
}

func TestBatch(t *testing.T) {
	r := newRig(t, func(o *Options) { o.UploadFiles = 4 })
	b := into[batchReply](t, r.send(alice, "/v1/upload/batch", field{"kind", "", "skill"}, field{"id", "", "s"},
		csv("demo/SKILL.md", "1"), csv("../evil", "2"), field{"files", "donne\u0301es.xsd", "3"}, csv("demo/SKILL.md", "4"), csv("fifth", "5")), 200)
	if b.Message != "partial_success" || b.Succeeded != 2 || b.Failed != 3 || b.SessionID != b.StorageSessionID || !b.FilesLimitReached || b.MaxFiles != 4 {
		t.Errorf("%+v", b)
	}
	for k, want := range []uploaded{
		{Status: "success", Filename: "demo/SKILL.md"},
		{Status: "error", Filename: "../evil"},
		{Status: "success", Filename: "donne\u0301es.xsd"},
		{Status: "error", Filename: "demo/SKILL.md"},
		{Status: "error", Filename: "fifth"},
	} {
		f := b.Files[k]
		if f.Status != want.Status || f.Filename != want.Filename || (f.FileID == "") != (want.Status == "error") || (f.Error == "") != (want.Status == "success") {
			t.Errorf("%d: %+v", k, f)
		}
	}
	if r.content(b.SessionID, "demo/SKILL.md") != "1" || r.content(b.SessionID, "données.xsd") != "3" {
		t.Error("not stored")
	}
	n := len(r.shells.live())
	e := into[batchReply](t, r.send(alice, "/upload/batch", csv("../a", "1"), csv("..", "2")), 400)
	if e.Message != "error" || e.Failed != 2 || e.Succeeded != 0 || e.Status != 400 || e.Code != "invalid_file" || e.Error == "" || len(r.shells.live()) != n {
		t.Errorf("%+v, %d sandboxes", e, len(r.shells.live()))
	}
	if e := into[obj](t, r.send(alice, "/upload/batch", field{"kind", "", "user"}), 400); e["error"] != "No files provided" {
		t.Errorf("%v", e)
	}
	all := into[batchReply](t, r.send(alice, "/upload/batch", csv("a", "1"), csv("b", "2")), 200)
	if all.Message != "success" || all.Failed != 0 || all.FilesLimitReached {
		t.Errorf("%+v", all)
	}
}

// A file of a batch that is too large fails by itself, whatever the request says
// of its length; only the batch as a whole has a limit of its own.
func TestLargeBatches(t *testing.T) {
	r := newRig(t, func(o *Options) { o.UploadBytes = 1 << 20 })
	large, fits := csv("large", strings.Repeat("x", 1<<20+1)), csv("fits", strings.Repeat("y", 1<<20))
	for name, chunked := range map[string]bool{"with a length": false, "chunked": true} {
		body, contentType := form(t, csv("first", "1"), large, fits)
		if chunked {
			body = struct{ io.Reader }{body}
		}
		q := r.request("POST", alice, "/upload/batch", body)
		q.Header.Set("Content-Type", contentType)
		b := into[batchReply](t, r.do(q), 200)
		if b.Message != "partial_success" || b.Succeeded != 2 || b.Failed != 1 || b.Files[1].Status != "error" || b.Files[1].Error != "File size limit exceeded" {
			t.Errorf("%s: %+v", name, b)
		}
		if r.content(b.SessionID, "first") != "1" || r.content(b.SessionID, "fits") != fits.value || !strings.Contains(r.content(b.SessionID, "large"), "no such file") {
			t.Errorf("%s: not what was sent", name)
		}
	}
	n := len(r.shells.live())
	parts := make([]field, 6)
	for k := range parts {
		parts[k] = csv(fmt.Sprint(k), fits.value)
	}
	for name, chunked := range map[string]bool{"with a length": false, "chunked": true} {
		body, contentType := form(t, parts...)
		if chunked {
			body = struct{ io.Reader }{body}
		}
		q := r.request("POST", alice, "/upload/batch", body)
		q.Header.Set("Content-Type", contentType)
		if e := into[obj](t, r.do(q), 413); e["error"] != "the batch is larger than 4194304 bytes in all" || e["code"] != "too_large" {
			t.Errorf("%s: %v", name, e)
		}
	}
	if got := len(r.shells.live()); got != n {
		t.Errorf("%d sandboxes left of batches that were refused", got-n)
	}
}

func TestManyFiles(t *testing.T) {
	r := newRig(t)
	parts := make([]field, 250)
	for k := range parts {
		parts[k] = csv(fmt.Sprintf("skill/%03d.md", k), "x")
	}
	b := into[batchReply](t, r.send(alice, "/upload/batch", parts...), 200)
	if b.Succeeded != 250 || b.Message != "success" {
		t.Errorf("%d of 250: %s", b.Succeeded, b.Message)
	}
}

func TestUploadIntoASession(t *testing.T) {
	r := newRig(t)
	s := r.exec(alice, "echo old > a").SessionID
	up := r.upload(alice, field{"session_id", "", s}, csv("a", "new"), csv("b/c", "1"))
	if up.SessionID != s || r.content(s, "a") != "new" || r.content(s, "b/c") != "1" {
		t.Errorf("%+v", up)
	}
	if res := r.exec(alice, "cat a", obj{"session_id": s}); res.Stdout != "new" || len(res.Files) != 0 {
		t.Errorf("%+v", res)
	}
	theirs := r.exec(mallory, "true").SessionID
	for _, id := range []string{theirs, "AAAAAAAAAAAAAAAAAAAAA", "../x"} {
		if e := into[obj](t, r.send(alice, "/upload", field{"session_id", "", id}, csv("a", "1")), 404); e["error"] != "session not found" {
			t.Errorf("%s: %v", id, e)
		}
	}
	into[obj](t, r.send(alice, "/upload", field{"session_id", "", s}, field{"read_only", "", "true"}, csv("z", "1")), 400)
	// What fails later takes back what it added, and only that.
	into[obj](t, r.send(alice, "/upload", field{"session_id", "", s}, csv("new1", "1"), csv("a", "replaced"), csv("../x", "1")), 400)
	if got := r.content(s, "new1"); !strings.Contains(got, "no such file") {
		t.Errorf("new1 is left: %q", got)
	}
	if r.content(s, "b/c") != "1" {
		t.Error("b/c is gone")
	}
}

func TestUploadNeedsStanding(t *testing.T) {
	r := newRig(t)
	for err, want := range map[error]int{host.ErrInsufficient: 402, host.ErrCap: 402, host.ErrUnavailable: 503} {
		r.standing = func(host.Principal) error { return fmt.Errorf("ledger: %w", err) }
		a := r.send(alice, "/upload", csv("a", "1"))
		if a.status != want || !strings.Contains(string(a.body), `"error":{"code":`) {
			t.Errorf("%v: %d %s", err, a.status, a.body)
		}
	}
	if r.shells.created.Load() != 0 {
		t.Error("something was leased")
	}
}

func TestUploadQuota(t *testing.T) {
	r := newRig(t, func(o *Options) { o.QuotaFiles = 4; o.QuotaBytes = 100 })
	first := r.upload(alice, csv("a", strings.Repeat("x", 60)))
	a := r.send(alice, "/upload", csv("b", strings.Repeat("x", 41)))
	if e := into[obj](t, a, 429); e["error"] != "upload_quota_exceeded" || a.header.Get("Retry-After") != "60" || e["retry_after_seconds"] != nil {
		t.Errorf("%v %s", a.header, a.body)
	}
	r.upload(mallory, csv("b", strings.Repeat("x", 100))) // everybody has their own
	// A batch that does not fit is taken back whole.
	into[obj](t, r.send(alice, "/upload/batch", csv("1", "1"), csv("2", "2"), csv("3", "3"), csv("4", "4")), 429)
	if n := len(r.shells.live()); n != 2 {
		t.Errorf("%d sandboxes, want two", n)
	}
	if a := r.do(r.request("DELETE", alice, "/files/"+first.SessionID+"/a", nil)); a.status != 204 {
		t.Errorf("%d", a.status)
	}
	second := r.upload(alice, csv("b", strings.Repeat("x", 100)))
	into[obj](t, r.send(alice, "/upload", csv("c", "x")), 429)
	if err := r.End(t.Context(), "acme", second.SessionID); err != nil {
		t.Fatal(err)
	}
	r.upload(alice, csv("c", strings.Repeat("x", 100)))
	// Another process counts what is there.
	again, err := newInterpreter(r, r.o)
	if err != nil {
		t.Fatal(err)
	}
	held, err := holdings{again}.Held(t.Context(), "acme", func(string) bool { return false })
	if err != nil || len(held) != 2 || held[first.SessionID].Files != 0 {
		t.Errorf("held = %v, %v", held, err)
	}
	r.shells.onList = func() error { return &backend.Error{Kind: backend.KindUnavailable} }
	if _, err := again.quota.Begin(t.Context(), "acme"); err == nil {
		t.Error("an upload begins though nobody knows what is there")
	}
}

// What was not stored takes nothing of the quota from the files behind it, and what takes
// the place of a file is counted in its place.
func TestQuotaOfFilesThatFail(t *testing.T) {
	r := newRig(t, func(o *Options) { o.UploadBytes, o.QuotaFiles, o.QuotaBytes = 1000, 3, 1500 })
	large := strings.Repeat("x", 1001)
	b := into[batchReply](t, r.send(alice, "/upload/batch", csv("large", large), csv("also", large), csv("a", "1"),
		csv("a/1", "1"), csv("a/2", "1"), csv("a/3", "1"), csv("b", "2"), csv("c", "3")), 200)
	if b.Succeeded != 3 || b.Failed != 5 {
		t.Fatalf("%+v", b)
	}
	for range 5 {
		into[obj](t, r.send(alice, "/upload", csv("d", "4")), 429) // three there are
		if a := r.do(r.request("DELETE", alice, "/files/"+b.SessionID+"/b", nil)); a.status != 204 {
			t.Fatalf("%d %s", a.status, a.body)
		}
		for range 3 {
			r.upload(alice, field{"session_id", "", b.SessionID}, csv("a", strings.Repeat("y", 700)))
		}
		r.upload(alice, field{"session_id", "", b.SessionID}, csv("b", "2"))
	}
}

// 16 uploads at once of 10 bytes into a quota of 50.
func TestUploadsAtOnceKeepTheQuota(t *testing.T) {
	r := newRig(t, func(o *Options) { o.QuotaBytes = 50 })
	var ok, full atomic.Int64
	var wg sync.WaitGroup
	for range 16 {
		wg.Go(func() {
			switch a := r.send(alice, "/upload", csv("a", "0123456789")); a.status {
			case 200:
				ok.Add(1)
			case 429:
				full.Add(1)
			default:
				t.Errorf("%d %s", a.status, a.body)
			}
		})
	}
	wg.Wait()
	if n := ok.Load(); n == 0 || n > 5 || n+full.Load() != 16 || int64(len(r.shells.live())) != n {
		t.Errorf("%d stored, %d refused, %d sandboxes", n, full.Load(), len(r.shells.live()))
	}
}

// A failure of the backend while a file is written leaves nothing behind.
func TestUploadFailures(t *testing.T) {
	for _, tt := range []struct {
		err          error
		single, each int
	}{
		{&backend.Error{Kind: backend.KindUnavailable, Message: "10.1.2.3"}, 503, 503},
		{&backend.Error{Kind: backend.KindInvalidRequest, Message: "/host/path"}, 400, 400},
		{&backend.Error{Kind: backend.KindNotFound, Subject: backend.SubjectSandbox, Plane: backend.PlaneControl}, 404, 404},
		{errors.New("/host/path"), 500, 500},
	} {
		r := newRig(t)
		r.shells.onWrite = func() error { return tt.err }
		for p, want := range map[string]int{"/upload": tt.single, "/upload/batch": tt.each} {
			a := r.send(alice, p, csv("a", "1"))
			if a.status != want || strings.Contains(string(a.body), "10.1") || strings.Contains(string(a.body), "/host") {
				t.Errorf("%s, %v: %d %s", p, tt.err, a.status, a.body)
			}
		}
		if n := len(r.shells.live()); n != 0 {
			t.Errorf("%v: %d sandboxes left", tt.err, n)
		}
	}
}
