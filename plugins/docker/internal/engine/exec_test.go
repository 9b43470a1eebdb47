package engine

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/caisson-run/caisson/plugins/docker/internal/settings"
)

// TestSilentEngine: an engine that accepts a command and then says nothing holds nobody
// up for longer than his context, and no goroutine for ever.
func TestSilentEngine(t *testing.T) {
	before := goleak.IgnoreCurrent()
	path := filepath.Join(t.TempDir(), "e")
	lis, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	asked := make(chan struct{})
	done := make(chan struct{})
	go func() {
		defer close(done)
		var open []net.Conn
		defer func() {
			for _, c := range open {
				_ = c.Close()
			}
		}()
		for {
			conn, err := lis.Accept()
			if err != nil {
				return
			}
			open = append(open, conn)
			go func() {
				r := bufio.NewReader(conn)
				for {
					req, err := http.ReadRequest(r)
					if err != nil {
						return
					}
					body := "OK"
					switch {
					case strings.HasSuffix(req.URL.Path, "/_ping"):
						if req.Method == http.MethodHead {
							body = "" // or it would be taken for the next answer
						}
					case strings.HasSuffix(req.URL.Path, "/exec"):
						body = `{"Id":"x"}`
					default: // the start
						close(asked)
						return
					}
					fmt.Fprintf(conn, "HTTP/1.1 200 OK\r\nApi-Version: 1.41\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
				}
			}()
		}
	}()
	e, err := Open(settings.Endpoint{Unix: path})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-asked
		cancel()
	}()
	began := time.Now()
	_, err = e.Exec(ctx, Command{Container: "c", Argv: []string{"true"}}, Streams{})
	if !errors.Is(err, context.Canceled) || time.Since(began) > 10*time.Second {
		t.Errorf("after %v: %v", time.Since(began), err)
	}
	e.Close()
	_ = lis.Close()
	<-done
	if err := goleak.Find(before); err != nil {
		t.Error(err)
	}
}
