package control

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"net"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
)

// TestSocket: the command over a socket, and what is left when the run ends.
func TestSocket(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	hold := make(chan struct{})
	r := newRun(t, func(ctx context.Context, c Call) (Reply, error) {
		switch c.Name {
		case "error":
			return Reply{Error: "not today"}, nil
		case "never":
			close(hold)
			return never(ctx, c)
		}
		return Reply{Result: c.Input}, nil
	})
	ctx, end := context.WithCancel(t.Context())
	served := make(chan error)
	go func() { served <- r.ServeListener(ctx, l) }()
	for _, c := range []struct {
		args           []string
		code           int
		stdout, stderr string
	}{
		{[]string{"echo"}, 0, "{}\n", ""},
		{[]string{"echo", "{ \"a\" : [1, 2] }"}, 0, "{\"a\":[1,2]}\n", ""},
		{[]string{"error"}, 1, "", "not today\n"},
		{[]string{"echo", "{"}, 1, "", "the input of echo is not valid JSON\n"},
		{[]string{}, 1, "", "usage: $CAISSON_CALL NAME [JSON]\n"},
	} {
		var stdout, stderr bytes.Buffer
		code := DialCommand(t.Context(), path, c.args, &stdout, &stderr)
		if code != c.code || stdout.String() != c.stdout || stderr.String() != c.stderr {
			t.Errorf("%q: %d, %q, %q", c.args, code, stdout.String(), stderr.String())
		}
	}
	var stdout, stderr bytes.Buffer
	if code := DialCommand(t.Context(), "", []string{"x"}, &stdout, &stderr); code != 1 || !strings.Contains(stderr.String(), "CAISSON_CONTROL") {
		t.Errorf("without a channel: %d, %q", code, stderr.String())
	}
	left := make(chan int)
	go func() {
		var stdout, stderr bytes.Buffer
		left <- DialCommand(context.Background(), path, []string{"never"}, &stdout, &stderr)
	}()
	<-hold
	end()
	if err := <-served; err != nil {
		t.Errorf("serving ended with %v", err)
	}
	if code := <-left; code != 1 {
		t.Errorf("a command whose run ended: %d", code)
	}
	if _, err := net.Dial("unix", path); err == nil {
		t.Error("the socket is still there")
	}
}

// TestHangUpWithoutRoom: two connections share the room for calls, and neither has got
// all of its frames in when the program gives both up. Then there is room for others.
func TestHangUpWithoutRoom(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("only Linux tells of a hang-up behind what has not been read")
	}
	for name, giveUp := range map[string]func(*net.UnixConn) error{
		"closed":           (*net.UnixConn).Close,
		"half is closed":   (*net.UnixConn).CloseWrite,
		"both halves are":  func(c *net.UnixConn) error { _ = c.CloseRead(); return c.CloseWrite() },
		"closed with more": func(c *net.UnixConn) error { _, _ = c.Write(frame(t, "more", large(10000))); return c.Close() },
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "s")
			l, err := net.Listen("unix", path)
			if err != nil {
				t.Fatal(err)
			}
			var asked atomic.Int64
			full := make(chan struct{})
			r := newRun(t, func(ctx context.Context, c Call) (Reply, error) {
				if c.Name == "echo" {
					return Reply{Result: c.Input}, nil
				}
				if asked.Add(1) == MaxOpen {
					close(full)
				}
				return never(ctx, c)
			})
			ctx, end := context.WithCancel(t.Context())
			served := make(chan error)
			go func() { served <- r.ServeListener(ctx, l) }()
			defer func() {
				end()
				if err := <-served; err != nil {
					t.Errorf("serving ended with %v", err)
				}
			}()
			connect := func() *net.UnixConn {
				c, err := net.DialUnix("unix", nil, &net.UnixAddr{Name: path, Net: "unix"})
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { _ = c.Close() })
				return c
			}
			send := func(c *net.UnixConn, from, to int) {
				for i := from; i < to; i++ {
					if _, err := c.Write(frame(t, fmt.Sprint(i), []byte("1"))); err != nil {
						t.Fatal(err)
					}
				}
			}
			one, two := connect(), connect()
			send(one, 0, MaxOpen/2)
			send(two, 0, MaxOpen/2)
			<-full
			send(one, MaxOpen/2, MaxOpen)
			send(two, MaxOpen/2, MaxOpen)
			if err := giveUp(one); err != nil {
				t.Fatal(err)
			}
			if err := giveUp(two); err != nil {
				t.Fatal(err)
			}
			next := connect()
			call, err := appendCall(nil, Call{ID: "e", Name: "echo", Input: []byte("7")})
			if err != nil {
				t.Fatal(err)
			}
			if _, err := next.Write(call); err != nil {
				t.Fatal(err)
			}
			if line, err := bufio.NewReader(next).ReadString('\n'); err != nil || line != `{"id":"e","result":7}`+"\n" {
				t.Errorf("%q, %v", line, err)
			}
		})
	}
}
