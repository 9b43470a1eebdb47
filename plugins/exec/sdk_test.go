package exec

import (
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/caisson-run/caisson/sdk/client"
)

func (r *rig) sdk(key string) *client.Client {
	r.t.Helper()
	c, err := client.New(client.Options{URL: r.server.URL, Key: key})
	if err != nil {
		r.t.Fatal(err)
	}
	return c
}

// The generated client and its layer do all that a program needs.
func TestSDK(t *testing.T) {
	r := newRig(t)
	c, ctx := r.sdk(alice), t.Context()

	stored, err := c.Put(ctx, "", `dir/a "b" é.txt`, strings.NewReader("0123456789"))
	if err != nil || stored.Size != 10 || stored.Name != `dir/a "b" é.txt` {
		t.Fatalf("%+v, %v", stored, err)
	}
	again, err := c.Put(ctx, stored.SessionID, "b", strings.NewReader(""))
	if err != nil || again.SessionID != stored.SessionID {
		t.Errorf("into the session: %+v, %v", again, err)
	}
	res, err := c.Run(ctx, client.Run{
		Lang: "bash", Code: `cat "dir/a \"b\" é.txt"; echo "$1" > out/c 2>/dev/null || { mkdir out; echo "$1" > out/c; }; exit 3`,
		Args: []string{"x y"}, SessionID: stored.SessionID,
	})
	if err != nil || res.Stdout != "0123456789" || res.Code == nil || *res.Code != 3 || res.SessionID != stored.SessionID || len(res.Files) != 1 || res.Files[0].Name != "out/c" {
		t.Fatalf("%+v, %v", res, err)
	}
	list, err := c.List(ctx, stored.SessionID)
	if err != nil || len(list) != 3 {
		t.Errorf("%+v, %v", list, err)
	}
	read := func(file string, offset, length int64) (string, *client.Content, error) {
		x, err := c.Open(ctx, stored.SessionID, file, offset, length)
		if err != nil {
			return "", nil, err
		}
		defer x.Close()
		b, err := io.ReadAll(x)
		return string(b), x, err
	}
	for _, file := range []string{stored.ID, stored.Name} {
		if got, x, err := read(file, 0, 0); got != "0123456789" || err != nil || x.Size != 10 {
			t.Errorf("%s: %q, %+v, %v", file, got, x, err)
		}
		if got, x, err := read(file, 2, 3); got != "234" || err != nil || x.Size != 10 || x.Offset != 2 {
			t.Errorf("part of %s: %q, %+v, %v", file, got, x, err)
		}
	}
	wantError := func(what string, err error, status int, code string) {
		t.Helper()
		if e, ok := errors.AsType[*client.Error](err); !ok || e.Status != status || e.Code != code || e.Message == "" {
			t.Errorf("%s: %v, want status %d %s", what, err, status, code)
		}
	}
	_, _, err = read(stored.ID, 10, 1)
	wantError("beyond the end", err, 416, "range_not_satisfiable")
	if err := c.Delete(ctx, stored.SessionID, stored.Name); err != nil {
		t.Error(err)
	}
	wantError("deleting again", c.Delete(ctx, stored.SessionID, stored.ID), 404, "not_found")
	_, err = c.Run(ctx, client.Run{Lang: "cobol", Code: "x"})
	wantError("unknown language", err, 400, "unsupported_language")
	_, err = c.Put(ctx, "", "../x", strings.NewReader(""))
	wantError("a name that leads out", err, 400, "invalid_file")
	if langs, err := c.Languages(ctx); err != nil || len(langs) != 3 {
		t.Errorf("%+v, %v", langs, err)
	}

	// What is somebody else's is not there.
	other := r.sdk(mallory)
	if list, err := other.List(ctx, stored.SessionID); err != nil || len(list) != 0 {
		t.Errorf("another tenant lists %+v, %v", list, err)
	}
	_, err = other.Open(ctx, stored.SessionID, again.ID, 0, 0)
	wantError("another tenant's file", err, 404, "not_found")
	wantError("deleting another tenant's file", other.Delete(ctx, stored.SessionID, again.ID), 404, "not_found")
	_, err = other.Put(ctx, stored.SessionID, "x", strings.NewReader(""))
	wantError("another tenant's session", err, 404, "not_found")
	_, err = r.sdk("wrong").Languages(ctx)
	wantError("a wrong key", err, 401, "unauthorized")
}
