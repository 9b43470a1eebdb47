package exec

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"
)

func TestNotAForm(t *testing.T) {
	r := newRig(t)
	for _, ct := range []string{"", "application/json", "multipart/form-data", "text/plain; boundary=x"} {
		q := r.request("POST", alice, "/v1/upload", strings.NewReader("x"))
		q.Header.Set("Content-Type", ct)
		if e := into[obj](t, r.do(q), 400); e["error"] != "Invalid content type. Must be multipart/form-data." {
			t.Errorf("%q: %v", ct, e)
		}
	}
	for _, body := range []string{"", "garbage", "--BB\r\n", "--BB\r\nContent-Disposition: form-data; name=\"file\"; filename=\"a\"\r\n\r\nhalf"} {
		q := r.request("POST", alice, "/v1/upload", strings.NewReader(body))
		q.Header.Set("Content-Type", "multipart/form-data; boundary=BB")
		into[obj](t, r.do(q), 400)
	}
	if n := len(r.shells.live()); n != 0 {
		t.Errorf("%d sandboxes left", n)
	}
}

func TestTooLarge(t *testing.T) {
	r := newRig(t, func(o *Options) { o.UploadBytes = 100_000; o.BodyBytes = 1000 })
	r.upload(alice, csv("exact", strings.Repeat("x", 100_000)))
	for _, chunked := range []bool{false, true} {
		for _, size := range []int{100_001, 5 << 20} {
			body, ct := form(t, csv("a", strings.Repeat("x", size)))
			if chunked {
				body = struct{ io.Reader }{body}
			}
			q := r.request("POST", alice, "/upload", body)
			q.Header.Set("Content-Type", ct)
			if e := into[obj](t, r.do(q), 413); e["error"] != "File size limit exceeded" || e["status"] != 413.0 {
				t.Errorf("%d bytes, chunked %v: %v", size, chunked, e)
			}
		}
	}
	b := into[batchReply](t, r.send(alice, "/upload/batch", csv("big", strings.Repeat("x", 100_001)), csv("small", "x")), 200)
	if b.Succeeded != 1 || b.Files[0].Error != "File size limit exceeded" {
		t.Errorf("%+v", b)
	}
	if n := len(r.shells.live()); n != 2 {
		t.Errorf("%d sandboxes, want two", n)
	}
	for _, body := range []io.Reader{strings.NewReader(strings.Repeat(" ", 1001)), struct{ io.Reader }{strings.NewReader(strings.Repeat(" ", 5000))}} {
		if e := into[obj](t, r.do(r.request("POST", alice, "/exec", body)), 413); e["error"] != "the body is larger than 1000 bytes" {
			t.Errorf("%v", e)
		}
	}
}

// raw opens a connection and sends the head of a request.
func (r *rig) raw(head string) net.Conn {
	r.t.Helper()
	c, err := net.Dial("tcp", r.server.Listener.Addr().String())
	if err != nil {
		r.t.Fatal(err)
	}
	if _, err := io.WriteString(c, head); err != nil {
		r.t.Fatal(err)
	}
	return c
}

const uploadHead = "POST /upload HTTP/1.1\r\nHost: x\r\nX-API-Key: alice\r\nContent-Type: multipart/form-data; boundary=BB\r\nContent-Length: 1000000\r\n\r\n" +
	"--BB\r\nContent-Disposition: form-data; name=\"file\"; filename=\"a\"\r\n\r\nhalf of a file"

func TestUploadsThatBreakOff(t *testing.T) {
	r := newRig(t)
	c := r.raw(uploadHead)
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	r.server.Close() // waits for the handler
	if n := len(r.shells.live()); n != 0 {
		t.Errorf("%d sandboxes left", n)
	}
	r.shells.leftovers(t)
}

func TestBodiesThatFallSilent(t *testing.T) {
	r := newRig(t, func(o *Options) { o.BodyIdle = 50 * time.Millisecond })
	for head, want := range map[string]int{
		uploadHead: 504,
		"POST /exec HTTP/1.1\r\nHost: x\r\nX-API-Key: alice\r\nContent-Length: 1000\r\n\r\n{\"lang\"": 408,
		// Refused for other reasons, with a body that never comes.
		"POST /exec HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n{":                                  401,
		"POST /exec/programmatic HTTP/1.1\r\nHost: x\r\nX-API-Key: alice\r\nContent-Length: 1000\r\n\r\n{": 408,
		"POST /upload HTTP/1.1\r\nHost: x\r\nX-API-Key: alice\r\nContent-Length: 999999999\r\n\r\n{":       413,
	} {
		c := r.raw(head)
		res, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err != nil {
			t.Fatal(err)
		}
		if res.StatusCode != want {
			t.Errorf("status %d, want %d", res.StatusCode, want)
		}
		// What was answered is what the log says: nobody hung up.
		waitFor(t, func() bool { return strings.Contains(r.log.String(), fmt.Sprintf("status=%d", want)) })
		res.Body.Close()
		c.Close()
	}
	if log := r.log.String(); strings.Contains(log, "status=499") {
		t.Errorf("log:\n%s", log)
	}
	if n := len(r.shells.live()); n != 0 {
		t.Errorf("%d sandboxes left", n)
	}
	// The deadline of a body does not outlive it.
	r.exec(alice, "sleep 0.3; echo")
}

func TestBodiesThatTrickle(t *testing.T) {
	r := newRig(t, func(o *Options) { o.BodyIdle = time.Hour; o.BodyTime = 50 * time.Millisecond })
	c := r.raw(uploadHead)
	defer c.Close()
	res, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil || res.StatusCode != 504 {
		t.Errorf("%v %v", res, err)
	}
}

// An upload is written while it arrives: it is never in memory as a whole.
func TestUploadsAreStreamed(t *testing.T) {
	r := newRig(t)
	pr, pw := io.Pipe()
	q := r.request("POST", alice, "/upload", pr)
	q.Header.Set("Content-Type", "multipart/form-data; boundary=BB")
	seen := make(chan struct{})
	go func() {
		_, err := io.WriteString(pw, "--BB\r\nContent-Disposition: form-data; name=\"file\"; filename=\"a\"\r\n\r\n"+strings.Repeat("x", 1<<20))
		if err != nil {
			pw.CloseWithError(err)
			return
		}
		<-seen
		_, err = io.WriteString(pw, "\r\n--BB--\r\n")
		pw.CloseWithError(err)
	}()
	go func() {
		defer close(seen)
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		tick := time.NewTicker(time.Millisecond)
		defer tick.Stop()
		for {
			m, _ := filepath.Glob(filepath.Join(r.shells.root, "*", "stage", "*"))
			if len(m) > 0 {
				return // part of the file is on the disk, the rest not yet sent
			}
			select {
			case <-tick.C:
			case <-ctx.Done():
				t.Error("nothing was written before the upload ended")
				return
			}
		}
	}()
	up := into[stored](t, r.do(q), 200)
	if up.Files[0].Size != 1<<20 {
		t.Errorf("%+v", up)
	}
}

// zeros is that many zero bytes.
type zeros int64

func (z *zeros) Read(p []byte) (int, error) {
	if *z == 0 {
		return 0, io.EOF
	}
	n := min(int64(len(p)), int64(*z))
	clear(p[:n])
	*z -= zeros(n)
	return int(n), nil
}

// What a large upload allocates has nothing to do with its size.
func TestLargeUploadsNeedNoMemory(t *testing.T) {
	r := newRig(t)
	const size = 96 << 20
	z := zeros(size)
	q := r.request("POST", alice, "/upload", io.MultiReader(
		strings.NewReader("--BB\r\nContent-Disposition: form-data; name=\"file\"; filename=\"a\"\r\n\r\n"), &z, strings.NewReader("\r\n--BB--\r\n")))
	q.Header.Set("Content-Type", "multipart/form-data; boundary=BB")
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	up := into[stored](t, r.do(q), 200)
	runtime.ReadMemStats(&after)
	if n := after.TotalAlloc - before.TotalAlloc; n > size/8 || up.Files[0].Size != size {
		t.Errorf("%d bytes allocated for an upload of %d; %+v", n, size, up.Files)
	}
}
