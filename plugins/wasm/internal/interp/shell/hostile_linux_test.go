package shell

import (
	"bytes"
	"context"
	"crypto/rand"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/caisson-run/caisson/plugins/wasm/internal/interp/guest"
	"github.com/caisson-run/caisson/plugins/wasm/internal/interp/shell/wire"
)

// hostileArg begins the argument with which this binary is a worker that does not
// keep to what was agreed.
const hostileArg = "hostile-worker-"

func hostileWorker(what string) {
	open := func(fd uintptr) *net.UnixConn {
		c, err := net.FileConn(os.NewFile(fd, "socket"))
		if err != nil {
			panic(err)
		}
		return c.(*net.UnixConn)
	}
	requests, programs := open(wire.FDRequests), open(wire.FDPrograms)
	ask := func(q wire.Request) { _ = wire.WriteFrame(requests, q.Append(nil)) }
	ask(wire.Request{Op: wire.OpJob})
	_, _ = wire.ReadFrame(requests, wire.MaxFrame)
	start := wire.Start{ID: 1, Argv: []string{"python3"}}
	switch what {
	case "garbage":
		b := make([]byte, 1000)
		_, _ = rand.Read(b)
		_ = wire.WriteFrame(requests, b)
	case "huge":
		_, _ = requests.Write([]byte{0xff, 0xff, 0xff, 0xff, 1, 2, 3})
	case "short":
		_, _ = requests.Write([]byte{100, 0, 0, 0, 1})
		_ = requests.Close()
	case "second job":
		ask(wire.Request{Op: wire.OpJob})
	case "deaf": // asks, and reads no answer
		for {
			ask(wire.Request{Op: wire.OpReadDir})
		}
	case "handles":
		for i := range uint32(2000) {
			ask(wire.Request{Op: wire.OpOpen, Path: "/mnt/data", Flags: wire.FlagRead})
			_, _ = wire.ReadFrame(requests, wire.MaxFrame)
			ask(wire.Request{Op: wire.OpWrite, Handle: i * 7, Data: []byte("x")})
			_, _ = wire.ReadFrame(requests, wire.MaxFrame)
		}
		ask(wire.Request{Op: wire.OpExit, Size: 9})
	case "packet":
		_, _ = programs.Write([]byte("no packet"))
	case "no descriptors":
		start.Streams = wire.StreamStdin | wire.StreamStdout
		_, _ = programs.Write(start.Append(nil))
	case "wrong descriptor":
		f, _ := os.Open(os.DevNull)
		start.Streams = wire.StreamStdin
		_, _, _ = programs.WriteMsgUnix(start.Append(nil), unix.UnixRights(int(f.Fd())), nil)
	case "spare descriptors":
		r, w, _ := os.Pipe()
		start.Streams = wire.StreamStdin
		_, _, _ = programs.WriteMsgUnix(start.Append(nil), unix.UnixRights(int(r.Fd()), int(w.Fd())), nil)
	case "many programs":
		go func() {
			for i := range uint32(500) {
				start.ID = i
				_, _ = programs.Write(start.Append(nil))
			}
		}()
		for range 500 - maxPrograms {
			b := make([]byte, wire.MaxPacket)
			n, _ := programs.Read(b)
			if e, err := wire.ParseEnded(b[:n]); err != nil || e.Code != 126 {
				os.Exit(1)
			}
		}
		ask(wire.Request{Op: wire.OpExit, Size: 8})
	case "grandchild": // keeps the output open
		_, _ = syscall.ForkExec("/bin/sleep", []string{"sleep", "1000"}, &syscall.ProcAttr{Files: []uintptr{0, 1, 2, wire.FDStderr}})
		ask(wire.Request{Op: wire.OpExit, Size: 7})
	}
	time.Sleep(time.Hour)
}

// A worker that breaks every rule costs its own run, and that run ends with a
// reason.
func TestHostileWorkers(t *testing.T) {
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for what, code := range map[string]int{
		"garbage": -1, "huge": -1, "short": -1, "second job": -1, "deaf": -1, "handles": 9, "packet": -1, "no descriptors": -1,
		"wrong descriptor": -1, "spare descriptors": -1, "many programs": 8, "grandchild": 7, "nothing": -1,
	} {
		t.Run(what, func(t *testing.T) {
			var running, most atomic.Int32
			in, err := New(Config{
				Command: []string{exe, hostileArg + what}, Dir: t.TempDir(), Programs: []string{"python3"},
				Run: func(ctx context.Context, _ guest.Program) (guest.Result, error) {
					most.Store(max(most.Load(), running.Add(1)))
					defer running.Add(-1)
					<-ctx.Done()
					return guest.Result{}, ctx.Err()
				},
			})
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = in.Close(context.Background()) }()
			s := newSandbox(t, in)
			ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
			defer cancel()
			if code < 0 { // nothing comes of it
				time.AfterFunc(2*time.Second, cancel)
			}
			o := s.run(ctx, s.program(""))
			switch {
			case code >= 0 && (o.Code != code || o.Reason != guest.ReasonExit || o.Err != nil),
				code < 0 && (o.Code == 0 || o.Err == nil):
				t.Errorf("code %d, reason %s, %v", o.Code, o.Reason, o.Err)
			}
			if running.Load() != 0 || most.Load() > maxPrograms {
				t.Errorf("%d programs run still, %d did at once", running.Load(), most.Load())
			}
		})
	}
}

// FuzzRequests carries out any requests in a real directory, beside which is what
// must stay as it is.
func FuzzRequests(f *testing.F) {
	requests := func(list ...wire.Request) []byte {
		var b bytes.Buffer
		for _, q := range list {
			_ = wire.WriteFrame(&b, q.Append(nil))
		}
		return b.Bytes()
	}
	for op := wire.OpOpen; op < wire.OpExit; op++ {
		f.Add(requests(
			wire.Request{Op: wire.OpOpen, Path: "/mnt/data/f", Flags: wire.FlagWrite | wire.FlagCreate, Perm: 0o644},
			wire.Request{Op: op, Handle: 1, Path: "/mnt/data/f", Target: "/mnt/data/../secret", Data: []byte("x"), Size: 1},
			wire.Request{Op: op, Handle: 1, Path: "/mnt/data/../../secret", Target: "../secret"}))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		top := t.TempDir()
		if err := os.Mkdir(filepath.Join(top, "data"), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(top, "secret"), []byte("s"), 0o600); err != nil {
			t.Fatal(err)
		}
		r, err := guest.New(t.Context(), guest.Program{Argv: []string{"bash"}, Data: guest.Mount{Root: openRoot(t, filepath.Join(top, "data"))}}, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		fs := newFiles(r)
		in := bytes.NewReader(b)
		for range 50 {
			frame, err := wire.ReadFrame(in, 1<<20)
			if err != nil {
				break
			}
			q, err := wire.ParseRequest(frame)
			if err != nil || q.Op == wire.OpUsage || q.Op == wire.OpJob || q.Op == wire.OpExit {
				continue
			}
			a := fs.do(q)
			if strings.Contains(string(a.Data), top) {
				t.Errorf("an answer names the host's directory: %q", a.Data)
			}
			if again, err := wire.ParseAnswer(a.Append(nil)); err != nil || again.Errno != a.Errno {
				t.Errorf("the answer %+v cannot be read: %v", a, err)
			}
		}
		fs.close()
		list, err := os.ReadDir(top)
		secret, rerr := os.ReadFile(filepath.Join(top, "secret"))
		if err != nil || rerr != nil || len(list) != 2 || string(secret) != "s" {
			t.Errorf("outside: %v, %q, %v, %v", list, secret, err, rerr)
		}
	})
}
