package exec

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/caisson-run/caisson/plugins/exec/internal/queue"
)

// parts is a form whose file names may have any character, as bodies of attackers do.
func (r *rig) parts(key, path string, fileNames []string) answer {
	r.t.Helper()
	body, w := io.Pipe()
	go func() {
		for _, name := range fileNames {
			if _, err := io.WriteString(w, "--B\r\nContent-Disposition: form-data; name=\"file\"; filename=\""+name+"\"\r\n\r\nx\r\n"); err != nil {
				return // the server refused it
			}
		}
		_, _ = io.WriteString(w, "--B--\r\n")
		_ = w.Close()
	}()
	defer body.Close()
	q := r.request("POST", key, path, body)
	q.Header.Set("Content-Type", "multipart/form-data; boundary=B")
	return r.do(q)
}

// What is told of a batch is bounded, whatever its names are and however many: what is
// counted is all of it, and what was stored stays.
func TestBatchRepliesAreBounded(t *testing.T) {
	r := newRig(t, func(o *Options) { o.UploadFiles = 500 })
	names := []string{"first"}
	for range 4000 {
		names = append(names, strings.Repeat("\x01", 3000))
	}
	a := r.parts(alice, "/upload/batch", names)
	b := into[batchReply](t, a, 200)
	if b.Succeeded != 1 || b.Failed != 4000 || !b.FilesLimitReached || b.MaxFiles != 500 || b.Message != "partial_success" {
		t.Errorf("%d, %d, %v, %d, %s", b.Succeeded, b.Failed, b.FilesLimitReached, b.MaxFiles, b.Message)
	}
	if most := 6*listedBytes + 1<<10; len(a.body) > most {
		t.Errorf("the reply has %d bytes, want at most %d", len(a.body), most)
	}
	if f := b.Files[0]; f.Filename != "first" || f.Status != success || r.content(b.SessionID, "first") != "x" {
		t.Errorf("%+v", f)
	}
	if f := b.Files[1]; f.Status != "error" || f.Error == "" || f.Filename != strings.Repeat("\x01", 1024)+"…" {
		t.Errorf("%.100q, %d bytes: %s", f.Filename, len(f.Filename), f.Error)
	}
	// Of an ordinary batch everything is told.
	names = nil
	for k := range 1000 {
		names = append(names, fmt.Sprintf("../some/directory/of/a/skill/with/a/long/name/%d", k))
	}
	if b := into[batchReply](t, r.parts(alice, "/upload/batch", names), 400); len(b.Files) != 1000 || b.Failed != 1000 {
		t.Errorf("%d of %d failures are told", len(b.Files), b.Failed)
	}
}

// A form of too many parts is refused, and nothing of it is left.
func TestTooManyParts(t *testing.T) {
	r := newRig(t, func(o *Options) { o.UploadFiles, o.QuotaFiles = 4, 4 })
	var names []string
	for k := range partsFactor*4 + 1 {
		names = append(names, fmt.Sprint(k))
	}
	e := into[obj](t, r.parts(alice, "/upload/batch", names), 413)
	if e["code"] != "too_large" || e["error"] != "the form has more than 40 parts" {
		t.Errorf("%v", e)
	}
	var fields []field
	for range partsFactor * 4 {
		fields = append(fields, field{"whatever", "", "x"})
	}
	into[obj](t, r.send(alice, "/upload", append(fields, csv("a", "1"))...), 413)
	// An old session keeps what it had, and gets nothing.
	s := r.exec(alice, "echo old > a").SessionID
	more := append([]field{{"session_id", "", s}, csv("new", "1")}, fields...)
	into[obj](t, r.send(alice, "/upload/batch", more...), 413)
	if got := r.exec(alice, "echo *", obj{"session_id": s}); got.Stdout != "a\n" {
		t.Errorf("%q is there", got.Stdout)
	}
	if n := len(r.shells.live()); n != 1 {
		t.Errorf("%d sandboxes, want that of the run", n)
	}
	b := into[batchReply](t, r.parts(alice, "/upload/batch", names[:4]), 200) // the quota has it all
	if b.Succeeded != 4 {
		t.Errorf("%+v", b)
	}
}

// So many uploads of a tenant go on at once; others wait, for a while.
func TestUploadsAtOnce(t *testing.T) {
	r := newRig(t, func(o *Options) { o.MaxWait = 50 * time.Millisecond })
	r.transfers.uploads = queue.New(queue.Limits{Running: 2, TenantRunning: 1, TenantWaiting: 1, Waiting: 2})
	body, slow := io.Pipe()
	q := r.request("POST", alice, "/upload", body)
	q.Header.Set("Content-Type", "multipart/form-data; boundary=B")
	done := make(chan answer, 1)
	go func() { done <- r.do(q) }()
	_, _ = io.WriteString(slow, "--B\r\nContent-Disposition: form-data; name=\"file\"; filename=\"slow\"\r\n\r\n")
	waitFor(t, func() bool { return r.transfers.uploads.Stats().Running == 1 })
	e := into[obj](t, r.send(bob, "/upload/batch", csv("a", "1")), http.StatusTooManyRequests)
	if e["error"] != "rate_limited" || e["message"] != "too many uploads at once" || e["retry_after_seconds"] == nil {
		t.Errorf("%v", e)
	}
	r.upload(mallory, csv("a", "1")) // another tenant
	_, _ = io.WriteString(slow, "\r\n--B--\r\n")
	_ = slow.Close()
	into[stored](t, <-done, 200)
	r.upload(bob, csv("a", "1"))
	if s := r.transfers.uploads.Stats(); s.Places != 0 {
		t.Errorf("%+v", s)
	}
}
