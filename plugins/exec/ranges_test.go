package exec

import (
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/caisson-run/caisson/plugins/exec/internal/queue"
)

// A file is read once for each download, whatever ranges of it are asked for.
func TestRanges(t *testing.T) {
	r := newRig(t)
	res := r.exec(alice, "printf 0123456789 > f; : > empty")
	var reads atomic.Int64
	r.shells.onRead = func() error { reads.Add(1); return nil }
	var backwards, forwards []string
	for k := range 3072 {
		backwards = append(backwards, fmt.Sprintf("%d-%d", 9-k%10, 9-k%10))
		forwards = append(forwards, fmt.Sprintf("%d-%d", k, k))
	}
	for _, tt := range []struct {
		file, ranges string
		status       int
		want         string
	}{
		{"f", "bytes=3-5", 206, "345"},
		{"f", "bytes= 3 - 5 ", 206, "345"},
		{"f", "bytes=-2", 206, "89"},
		{"f", "bytes=-20", 206, "0123456789"},
		{"f", "bytes=3-9223372036854775808", 206, "3456789"},
		{"f", "bytes=3-" + strings.Repeat("9", 100), 206, "3456789"},
		{"f", "bytes=-9223372036854775808", 206, "0123456789"},
		{"f", "bytes=" + strings.Repeat("9", 100) + "-", 416, ""},
		{"f", "bytes=--3", 416, ""},
		{"f", "bytes=3-a", 416, ""},
		{"f", "bytes=-0", 416, ""},
		{"f", "bytes=-00", 416, ""},
		{"f", "bytes= - 0 ", 416, ""},
		{"f", "bytes=10-", 416, ""},
		{"f", "bytes=5-3", 416, ""},
		{"f", "bytes=x", 416, ""},
		{"f", "bytes=", 200, "0123456789"},
		{"f", "bytes=0-1,3-4", 200, "0123456789"},
		{"f", "bytes=5-6,1-2", 200, "0123456789"},
		{"f", "bytes=1-2,", 200, "0123456789"},
		{"f", "bytes=" + strings.Join(backwards[:40], ","), 200, "0123456789"},
		{"f", "bytes=" + strings.Join(backwards, ","), 200, "0123456789"},
		{"f", "bytes=" + strings.Join(forwards, ","), 200, "0123456789"},
		{"f", "lines=3-5", 200, "0123456789"},
		{"empty", "bytes=-5", 200, ""},
		{"empty", "bytes=-0", 200, ""},
		{"empty", "bytes=0-", 200, ""},
	} {
		reads.Store(0)
		q := r.request("GET", alice, "/download/"+res.SessionID+"/"+tt.file, nil)
		q.Header.Set("Range", tt.ranges)
		a := r.do(q)
		if a.status != tt.status || tt.status != 416 && string(a.body) != tt.want {
			t.Errorf("%.40s of %s: %d %.40q, want %d %q", tt.ranges, tt.file, a.status, a.body, tt.status, tt.want)
		}
		if n := reads.Load(); n != 1 {
			t.Errorf("%.40s of %s: it was read %d times", tt.ranges, tt.file, n)
		}
		if tt.status == 416 && a.header.Get("Content-Range") != "bytes */10" {
			t.Errorf("%s: %v", tt.ranges, a.header)
		}
	}
	q := r.request("GET", alice, "/download/"+res.SessionID+"/f", nil)
	q.Header["Range"] = []string{"bytes=1-1", "bytes=2-2"}
	if a := r.do(q); a.status != 200 {
		t.Errorf("two headers: %d", a.status)
	}
}

// So many downloads of a tenant go on at once, and fewer that read what nobody asked for.
func TestDownloadsAtOnce(t *testing.T) {
	r := newRig(t, func(o *Options) { o.MaxWait = 50 * time.Millisecond })
	mine, theirs := r.exec(alice, "printf 0123456789 > f").SessionID, r.exec(mallory, "printf x > f").SessionID
	r.transfers.downloads = queue.New(queue.Limits{Running: 2, Waiting: 2, TenantRunning: 1, TenantWaiting: 1})
	place, err := r.transfers.downloads.Join("acme")
	if err != nil || place.Wait(t.Context()) != nil {
		t.Fatal(err)
	}
	e := into[obj](t, r.get(bob, "/download/"+mine+"/f"), 429)
	if e["error"] != "rate_limited" || e["message"] != "too many downloads at once" || e["retry_after_seconds"] == nil {
		t.Errorf("%v", e)
	}
	if a := r.get(mallory, "/download/"+theirs+"/f"); a.status != 200 {
		t.Errorf("another tenant: %d", a.status)
	}
	place.Leave()

	r.transfers.skips = queue.New(queue.Limits{Running: 1, Waiting: 1, TenantRunning: 1, TenantWaiting: 1})
	if place, err = r.transfers.skips.Join("evil"); err != nil || place.Wait(t.Context()) != nil {
		t.Fatal(err)
	}
	part := func(ranges string) answer {
		q := r.request("GET", alice, "/download/"+mine+"/f", nil)
		q.Header.Set("Range", ranges)
		return r.do(q)
	}
	if a := part("bytes=0-2"); a.status != 206 || string(a.body) != "012" {
		t.Errorf("the beginning: %d %s", a.status, a.body)
	}
	done := make(chan answer, 1)
	go func() { done <- part("bytes=7-") }()
	waitFor(t, func() bool { return r.transfers.skips.Stats().Waiting == 1 })
	select {
	case a := <-done:
		t.Errorf("it did not wait: %d", a.status)
	default:
	}
	place.Leave()
	if a := <-done; a.status != 206 || string(a.body) != "789" {
		t.Errorf("the end: %d %s", a.status, a.body)
	}
	waitFor(t, func() bool { return r.transfers.downloads.Stats().Places+r.transfers.skips.Stats().Places == 0 })
}
