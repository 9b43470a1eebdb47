package exec

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"testing"
	"time"
)

// A client that sends all of a large request before it reads is told why it was refused,
// in a server of the platform's too, and where it will close the connection.
func TestRefusalsOutliveLargeRequests(t *testing.T) {
	const size = 12 << 20
	r := newRig(t, func(o *Options) { o.UploadBytes = size / 2 })
	for what, c := range map[string]struct {
		head string
		want int
	}{
		"too large":  {"POST /upload HTTP/1.1\r\nX-API-Key: alice\r\nContent-Type: multipart/form-data; boundary=BB\r\n", 413},
		"nobody":     {"POST /upload HTTP/1.1\r\n", 401},
		"no method":  {"POST /languages HTTP/1.1\r\nX-API-Key: alice\r\n", 405},
		"no form":    {"POST /upload/batch HTTP/1.1\r\nX-API-Key: alice\r\n", 400},
		"no profile": {"POST /exec HTTP/1.1\r\nX-API-Key: alice\r\nX-CodeAPI-Expected-Profile: other\r\n", 409},
	} {
		for _, more := range []string{"", "Connection: close\r\n"} {
			conn := r.raw(c.head + fmt.Sprintf("Host: x\r\n%sContent-Length: %d\r\n\r\n", more, size))
			_ = conn.SetDeadline(time.Now().Add(time.Minute))
			for range size >> 20 {
				if _, err := conn.Write(make([]byte, 1<<20)); err != nil {
					t.Errorf("%s: the connection was closed while it was written to: %v", what, err)
					break
				}
			}
			res, err := http.ReadResponse(bufio.NewReader(conn), nil)
			if err != nil {
				t.Errorf("%s: %v", what, err)
				continue
			}
			if _, err := io.Copy(io.Discard, res.Body); err != nil || res.StatusCode != c.want || !res.Close {
				t.Errorf("%s: %d, close %v, %v, want %d", what, res.StatusCode, res.Close, err, c.want)
			}
			if err := conn.Close(); err != nil {
				t.Error(err)
			}
		}
	}
}
