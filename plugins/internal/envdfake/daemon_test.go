package envdfake_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime/multipart"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"connectrpc.com/connect"
	"go.uber.org/goleak"

	"github.com/caisson-run/caisson/plugins/internal/envd/envdpb/filesystempb"
	"github.com/caisson-run/caisson/plugins/internal/envd/envdpb/filesystempb/filesystempbconnect"
	"github.com/caisson-run/caisson/plugins/internal/envd/envdpb/processpb/processpbconnect"
	"github.com/caisson-run/caisson/plugins/internal/envdfake"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const token = "t0ken"

// daemon is a machine and plain clients of it.
type daemon struct {
	*envdfake.Machine
	t       *testing.T
	url     string
	http    *http.Client
	process processpbconnect.ProcessClient
	files   filesystempbconnect.FilesystemClient
	allowed []string // violations that a test provokes
}

// header sets headers on every request.
type header struct {
	next http.RoundTripper
	set  map[string]string
}

func (h header) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	for k, v := range h.set {
		if r.Header.Get(k) == "" {
			r.Header.Set(k, v)
		}
	}
	return h.next.RoundTrip(r)
}

func newDaemon(t *testing.T, o envdfake.Options, clients ...connect.ClientOption) *daemon {
	t.Helper()
	o.Token = token
	m, err := envdfake.New(t.TempDir(), o)
	if errors.Is(err, envdfake.ErrUnable) {
		if os.Getenv("CAISSON_CI") != "" {
			t.Fatal(err)
		}
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(m)
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.DisableCompression = true
	d := &daemon{Machine: m, t: t, url: server.URL}
	d.http = &http.Client{Transport: header{transport, map[string]string{"X-Access-Token": token}}}
	d.process = processpbconnect.NewProcessClient(d.http, d.url, clients...)
	d.files = filesystempbconnect.NewFilesystemClient(d.http, d.url, clients...)
	t.Cleanup(func() {
		if err := m.Close(); err != nil {
			t.Error(err)
		}
		server.CloseClientConnections()
		server.Close()
		transport.CloseIdleConnections()
		for _, v := range m.Violations() {
			if !slices.ContainsFunc(d.allowed, func(a string) bool { return strings.Contains(v, a) }) {
				t.Errorf("violation: %s", v)
			}
		}
	})
	return d
}

// ask sends a request and returns status, header and body.
func (d *daemon) ask(method, path string, body io.Reader, headers ...string) (int, http.Header, string) {
	d.t.Helper()
	r, err := http.NewRequestWithContext(d.t.Context(), method, d.url+path, body)
	if err != nil {
		d.t.Fatal(err)
	}
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	res, err := d.http.Do(r)
	if err != nil {
		d.t.Fatal(err)
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		d.t.Fatal(err)
	}
	return res.StatusCode, res.Header, string(b)
}

func file(parts ...string) (io.Reader, string) {
	var b bytes.Buffer
	w := multipart.NewWriter(&b)
	for _, p := range parts {
		name, content, _ := strings.Cut(p, "=")
		part, _ := w.CreateFormFile("file", name)
		_, _ = io.WriteString(part, content)
	}
	_ = w.Close()
	return &b, w.FormDataContentType()
}

func (d *daemon) post(path string, content string) (int, string) {
	d.t.Helper()
	body, kind := file("x=" + content)
	status, _, text := d.ask("POST", "/files?path="+url.QueryEscape(path), body, "Content-Type", kind)
	return status, text
}

// TestHTTP is the table of the daemon's plain routes.
func TestHTTP(t *testing.T) {
	d := newDaemon(t, envdfake.Options{Env: map[string]string{"A": "b"}})
	d.allowed = []string{"HEAD", "without an access token", "no route"}
	if status, text := d.post("/mnt/dir/f.txt", "content"); status != 200 || !strings.Contains(text, `"path":"/mnt/dir/f.txt"`) {
		t.Fatalf("%d %s", status, text)
	}
	if err := errors.Join(os.Symlink("nowhere", d.Path("/mnt/dangling")), os.Chmod(d.Path("/mnt/dir/f.txt"), 0o644)); err != nil {
		t.Fatal(err)
	}
	form, kind := file("x=y")
	two, twoKind := file("a=1", "b=2")
	some, someKind := file("/mnt/some/a=1", "/mnt/some/b=2")
	for _, row := range []struct {
		name, method, path string
		body               io.Reader
		headers            []string
		status             int
		holds              string
	}{
		{"health", "GET", "/health", nil, []string{"X-Access-Token", "wrong"}, 204, ""},
		{"metrics", "GET", "/metrics", nil, nil, 200, `"cpu_count"`},
		{"variables", "GET", "/envs", nil, nil, 200, `{"A":"b"}`},
		{"head", "HEAD", "/health", nil, nil, 405, ""},
		{"no route", "GET", "/nothing", nil, nil, 404, ""},
		{"read", "GET", "/files?path=/mnt/dir/f.txt", nil, nil, 200, "content"},
		{"read, dots", "GET", "/files?path=/mnt/x/../dir/./f.txt", nil, nil, 200, "content"},
		{"read a range", "GET", "/files?path=/mnt/dir/f.txt", nil, []string{"Range", "bytes=1-2"}, 206, "on"},
		{"missing", "GET", "/files?path=/mnt/absent", nil, nil, 404, `{"code":404,"message":"path '/mnt/absent' does not exist"}`},
		{"dangling", "GET", "/files?path=/mnt/dangling", nil, nil, 404, "does not exist"},
		{"directory", "GET", "/files?path=/mnt/dir", nil, nil, 400, `"code":400`},
		{"no path", "GET", "/files", nil, nil, 400, `"code":400`},
		{"below a file", "GET", "/files?path=/mnt/dir/f.txt/x", nil, nil, 500, ""},
		{"unknown account", "GET", "/files?path=/mnt/dir/f.txt&username=who", nil, nil, 401, "error looking up user"},
		{"unknown Basic account", "GET", "/files?path=/mnt/dir/f.txt", nil, []string{"Authorization", "Basic d2hvOg=="}, 401, `{"code":"unauthenticated","message":"invalid username: 'who'"}`},
		{"wrong token", "GET", "/files?path=/mnt/dir/f.txt", nil, []string{"X-Access-Token", "wrong"}, 401, "access token present in header but does not match"},
		{"wrong token, protocol", "POST", "/process.Process/List", strings.NewReader("{}"), []string{"X-Access-Token", "wrong", "Content-Type", "application/json", "Connect-Protocol-Version", "1"}, 401, `"code":401`},
		{"write over a directory", "POST", "/files?path=/mnt/dir", form, []string{"Content-Type", kind}, 400, `"code":400`},
		{"two to one path", "POST", "/files?path=/mnt/two", two, []string{"Content-Type", twoKind}, 400, "multiple"},
		{"several", "POST", "/files", some, []string{"Content-Type", someKind}, 200, `"path":"/mnt/some/b"`},
		{"other type", "POST", "/files?path=/mnt/f", strings.NewReader("x"), []string{"Content-Type", "text/plain"}, 400, "unsupported content type"},
		{"no type", "POST", "/files?path=/mnt/f", strings.NewReader("x"), nil, 400, "unsupported content type"},
		{"raw", "POST", "/files?path=/mnt/raw", strings.NewReader("x"), []string{"Content-Type", "application/octet-stream"}, 200, `"path":"/mnt/raw"`},
		{"raw without path", "POST", "/files", strings.NewReader("x"), []string{"Content-Type", "application/octet-stream"}, 400, "path"},
	} {
		status, h, text := d.ask(row.method, row.path, row.body, row.headers...)
		if status != row.status || !strings.Contains(text, row.holds) {
			t.Errorf("%s: %d %s, want %d with %s", row.name, status, text, row.status, row.holds)
		}
		if row.name == "read" && (h.Get("Content-Length") != "7" || h.Get("Content-Disposition") != `inline; filename=f.txt` || h.Get("Accept-Ranges") != "bytes" || h.Get("Last-Modified") == "") {
			t.Errorf("headers of a file: %v", h)
		}
		if row.name == "raw" && !strings.HasPrefix(h.Get("Content-Type"), "text/plain") {
			t.Errorf("an upload is answered as %q", h.Get("Content-Type"))
		}
	}
	if b, err := os.ReadFile(d.Path("/mnt/two")); err != nil || string(b) != "1" {
		t.Errorf("the first of two parts: %q, %v", b, err)
	}
	status, text := d.post("/mnt/dir/f.txt/x", "y")
	if status != 500 || !strings.Contains(text, "error ensuring directories: path is a file") {
		t.Errorf("below a file: %d %s", status, text)
	}
	_, h, _ := d.ask("GET", "/files?path=/mnt/dir/f.txt", nil, "Accept-Encoding", "gzip")
	if h.Get("Content-Encoding") != "gzip" || h.Get("Content-Length") != "" {
		t.Errorf("compressed: %v", h)
	}
	old := newDaemon(t, envdfake.Options{Version: "0.5.6"})
	if status, _, text := old.ask("POST", "/files?path=/mnt/f", strings.NewReader("x"), "Content-Type", "application/octet-stream"); status != 400 {
		t.Errorf("raw to an old daemon: %d %s", status, text)
	}
}

// TestSignatures let a bearer of a link in, and nobody else.
func TestSignatures(t *testing.T) {
	d := newDaemon(t, envdfake.Options{})
	d.allowed = []string{"without an access token"}
	if status, text := d.post("/mnt/f", "x"); status != 200 {
		t.Fatal(status, text)
	}
	plain := &http.Client{Transport: http.DefaultTransport.(*http.Transport).Clone()}
	defer plain.CloseIdleConnections()
	past, future := fmt.Sprint(time.Now().Unix()-10), fmt.Sprint(time.Now().Unix()+100)
	for _, row := range []struct {
		signature, expiration string
		status                int
		holds                 string
	}{
		{"", "", 401, "missing signature query parameter"},
		{"v1_x", "", 401, "invalid signature"},
		{d.Signature("/mnt/f", "write", "", ""), "", 401, "invalid signature"},
		{d.Signature("/mnt/f", "read", "", ""), "", 200, "x"},
		{d.Signature("/mnt/f", "read", "", past), past, 401, "signature is already expired"},
		{d.Signature("/mnt/f", "read", "", future), future, 200, "x"},
	} {
		q := url.Values{"path": {"/mnt/f"}}
		if row.signature != "" {
			q.Set("signature", row.signature)
		}
		if row.expiration != "" {
			q.Set("signature_expiration", row.expiration)
		}
		r, _ := http.NewRequestWithContext(t.Context(), "GET", d.url+"/files?"+q.Encode(), nil)
		res, err := plain.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		b, _ := io.ReadAll(res.Body)
		_ = res.Body.Close()
		if res.StatusCode != row.status || !strings.Contains(string(b), row.holds) {
			t.Errorf("%+v: %d %s", row, res.StatusCode, b)
		}
	}
	// As recorded from the daemon for this path, operation and token.
	if got := d.Signature("/mnt/f", "read", "", ""); len(got) != 3+43 || !strings.HasPrefix(got, "v1_") || strings.HasSuffix(got, "=") {
		t.Errorf("signature %q", got)
	}
}

// TestFilesystem is the table of the file service.
func TestFilesystem(t *testing.T) {
	d := newDaemon(t, envdfake.Options{})
	ctx := t.Context()
	dir := d.Path("/mnt")
	if err := errors.Join(
		os.MkdirAll(filepath.Join(dir, "full/sub"), 0o755), os.WriteFile(filepath.Join(dir, "file"), []byte("12345"), 0o640), os.Mkdir(filepath.Join(dir, "empty"), 0o755),
		os.Symlink("file", filepath.Join(dir, "link")), os.Symlink("/mnt/full", filepath.Join(dir, "dirlink")), os.Symlink("loop", filepath.Join(dir, "loop")),
		os.Symlink("/etc", filepath.Join(dir, "full/out")), syscall.Mkfifo(filepath.Join(dir, "fifo"), 0o644),
	); err != nil {
		t.Fatal(err)
	}
	for _, row := range []struct {
		path, target string
		kind         filesystempb.FileType
	}{
		{"/mnt/file", "", filesystempb.FileType_FILE_TYPE_FILE},
		{"/mnt/full", "", filesystempb.FileType_FILE_TYPE_DIRECTORY},
		{"/mnt/link", "/mnt/file", filesystempb.FileType_FILE_TYPE_FILE},
		{"/mnt/dirlink", "/mnt/full", filesystempb.FileType_FILE_TYPE_DIRECTORY},
		{"/mnt/loop", "/mnt/loop", filesystempb.FileType_FILE_TYPE_UNSPECIFIED},
		{"/mnt/fifo", "", filesystempb.FileType_FILE_TYPE_UNSPECIFIED},
		{"/dev/null", "", filesystempb.FileType_FILE_TYPE_UNSPECIFIED},
	} {
		res, err := d.files.Stat(ctx, connect.NewRequest(&filesystempb.StatRequest{Path: row.path}))
		if err != nil {
			t.Errorf("%s: %v", row.path, err)
			continue
		}
		e := res.Msg.GetEntry()
		if e.GetType() != row.kind || e.GetSymlinkTarget() != row.target || row.target != "" && !strings.HasPrefix(e.GetPermissions(), "L") {
			t.Errorf("%s: %v", row.path, e)
		}
		if row.path == "/mnt/file" && (e.GetSize() != 5 || e.GetMode() != 0o640 || e.GetPermissions() != "-rw-r-----") {
			t.Errorf("%s: %v", row.path, e)
		}
	}
	stat := func(p string) error {
		_, err := d.files.Stat(ctx, connect.NewRequest(&filesystempb.StatRequest{Path: p}))
		return err
	}
	mkdir := func(p string) error {
		_, err := d.files.MakeDir(ctx, connect.NewRequest(&filesystempb.MakeDirRequest{Path: p}))
		return err
	}
	list := func(p string) error {
		_, err := d.files.ListDir(ctx, connect.NewRequest(&filesystempb.ListDirRequest{Path: p}))
		return err
	}
	move := func(from, to string) error {
		_, err := d.files.Move(ctx, connect.NewRequest(&filesystempb.MoveRequest{Source: from, Destination: to}))
		return err
	}
	remove := func(p string) error {
		_, err := d.files.Remove(ctx, connect.NewRequest(&filesystempb.RemoveRequest{Path: p}))
		return err
	}
	watch := func(p string) error {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		s, err := d.files.WatchDir(ctx, connect.NewRequest(&filesystempb.WatchDirRequest{Path: p}))
		if err == nil && !s.Receive() {
			err = s.Err()
		}
		return err
	}
	for _, row := range []struct {
		name string
		err  error
		want connect.Code // 0 is success
	}{
		{"stat missing", stat("/mnt/absent"), connect.CodeNotFound},
		{"make with parents", mkdir("/mnt/a/b/c"), 0},
		{"make existing", mkdir("/mnt/a"), connect.CodeAlreadyExists},
		{"make root", mkdir("/"), connect.CodeAlreadyExists},
		{"make, trailing slash", mkdir("/mnt/a/"), connect.CodeAlreadyExists},
		{"make over a file", mkdir("/mnt/file"), connect.CodeInvalidArgument},
		{"make below a file", mkdir("/mnt/file/x"), connect.CodeInternal},
		{"list empty", list("/mnt/empty"), 0},
		{"list a file", list("/mnt/file"), connect.CodeInvalidArgument},
		{"list missing", list("/mnt/absent"), connect.CodeNotFound},
		{"list a loop", list("/mnt/loop"), connect.CodeFailedPrecondition},
		{"move missing", move("/mnt/absent", "/mnt/x"), connect.CodeNotFound},
		{"move, parents", move("/mnt/a/b", "/mnt/new/parents/b"), 0},
		{"move a file onto a directory", move("/mnt/file", "/mnt/full"), connect.CodeInternal},
		{"remove missing", remove("/mnt/absent"), 0},
		{"remove a link", remove("/mnt/link"), 0},
		{"watch missing", watch("/mnt/absent"), connect.CodeNotFound},
		{"watch a file", watch("/mnt/file"), connect.CodeInvalidArgument},
		{"watch", watch("/mnt/full"), 0},
	} {
		if row.want == 0 && row.err != nil || row.want != 0 && connect.CodeOf(row.err) != row.want {
			t.Errorf("%s: %v, want %v", row.name, row.err, row.want)
		}
	}
	if _, err := os.Stat(filepath.Join(dir, "file")); err != nil {
		t.Errorf("removing a link removed its target: %v", err)
	}
	res, err := d.files.ListDir(ctx, connect.NewRequest(&filesystempb.ListDirRequest{Path: "/mnt/dirlink", Depth: 5}))
	var paths []string
	for _, e := range res.Msg.GetEntries() {
		paths = append(paths, e.GetPath())
	}
	if want := []string{"/mnt/dirlink/out", "/mnt/dirlink/sub"}; err != nil || !slices.Equal(paths, want) {
		t.Errorf("through a link: %q, %v, want %q", paths, err, want)
	}
	if err := remove("/mnt/full"); err != nil || stat("/mnt/full") == nil {
		t.Errorf("a directory with content: %v", err)
	}
}

// TestWire: empty results are empty messages, numbers are strings, and errors have the
// statuses that were seen.
func TestWire(t *testing.T) {
	d := newDaemon(t, envdfake.Options{})
	d.allowed = []string{"content type", "protocol's version", "no method", "unknown field"}
	if status, text := d.post("/mnt/f", "12345"); status != 200 {
		t.Fatal(status, text)
	}
	if err := os.Mkdir(d.Path("/mnt/empty"), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, row := range []struct {
		method, body string
		status       int
		holds        string
	}{
		{"filesystem.Filesystem/ListDir", `{"path":"/mnt/empty"}`, 200, `{}`},
		{"filesystem.Filesystem/Stat", `{"path":"/mnt/f"}`, 200, `"size":"5"`},
		{"filesystem.Filesystem/Stat", `{"path":"/mnt/x"}`, 404, `{"code":"not_found"`},
		{"filesystem.Filesystem/MakeDir", `{"path":"/mnt/empty"}`, 409, `{"code":"already_exists"`},
		{"filesystem.Filesystem/MakeDir", `{"path":"/mnt/f"}`, 400, `{"code":"invalid_argument"`},
		{"filesystem.Filesystem/MakeDir", `{"path":"/mnt/f/x"}`, 500, `{"code":"internal"`},
		{"filesystem.Filesystem/ListDir", `{"path":"/mnt/empty","nonsense":1}`, 200, `{}`}, // recorded
		{"process.Process/SendSignal", `{"process":{"pid":1},"signal":"SIGNAL_SIGKILL"}`, 404, `{"code":"not_found","message":"process with pid 1 not found"}`},
		{"process.Process/Update", `{}`, 501, `{"code":"unimplemented"`},
		{"process.Process/Nothing", `{}`, 404, "404 page not found"},
	} {
		status, h, text := d.ask("POST", "/"+row.method, strings.NewReader(row.body), "Content-Type", "application/json", "Connect-Protocol-Version", "1")
		var compact bytes.Buffer
		if json.Compact(&compact, []byte(text)) == nil {
			text = compact.String()
		}
		if status != row.status || !strings.Contains(text, row.holds) {
			t.Errorf("%s %s: %d %s, want %d with %s", row.method, row.body, status, text, row.status, row.holds)
		}
		if row.status == 404 && strings.Contains(row.method, "Nothing") && !strings.HasPrefix(h.Get("Content-Type"), "text/plain") {
			t.Errorf("an unknown method is answered as %q", h.Get("Content-Type"))
		}
	}
	if !slices.ContainsFunc(d.Violations(), func(v string) bool { return strings.Contains(v, "nonsense") }) {
		t.Errorf("a field that is none was not noticed: %q", d.Violations())
	}
}
