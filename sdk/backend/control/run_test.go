package control

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func never(ctx context.Context, _ Call) (Reply, error) {
	<-ctx.Done()
	return Reply{}, ctx.Err()
}

func newRun(t *testing.T, call func(context.Context, Call) (Reply, error)) *Run {
	r := NewRun(t.Context(), Config{Call: call, Gone: func(err error) { t.Errorf("gone: %v", err) }})
	t.Cleanup(r.Close)
	return r
}

func dial(t *testing.T, r *Run) *Conn {
	t.Helper()
	c, err := r.Dial()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func frame(t *testing.T, id string, input []byte) []byte {
	t.Helper()
	b, err := appendCall(nil, Call{ID: id, Name: "n", Input: input})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// large is a JSON value of n bytes.
func large(n int) []byte { return []byte(`"` + strings.Repeat("x", n-2) + `"`) }

// TestHeld: inputs are bounded together, whatever the connections do, and what waits
// goes on when there is room again. Connections with half a frame hold up nobody.
func TestHeld(t *testing.T) {
	release := make(chan struct{})
	var begun atomic.Int64
	r := newRun(t, func(ctx context.Context, c Call) (Reply, error) {
		begun.Add(1)
		select {
		case <-release:
		case <-ctx.Done():
		}
		return Reply{Result: []byte("1")}, nil
	})
	half := dial(t, r)
	if _, err := half.Write(frame(t, "h", large(smallFrame))[:smallFrame/2]); err != nil {
		t.Fatal(err)
	}
	const n = MaxHeld/MaxValue + 2
	var all sync.WaitGroup
	for i := range n {
		c := dial(t, r)
		all.Go(func() {
			if _, err := exchange(t.Context(), c, fmt.Sprint("n", i), large(MaxValue)); err != nil {
				t.Errorf("call %d: %v", i, err)
			}
		})
	}
	for begun.Load() < MaxHeld/MaxValue {
		time.Sleep(time.Millisecond)
	}
	time.Sleep(50 * time.Millisecond)
	r.mu.Lock()
	held := r.held
	r.mu.Unlock()
	if held > MaxHeld+MaxFrame || begun.Load() > MaxHeld/MaxValue {
		t.Errorf("%d bytes in %d calls are held", held, begun.Load())
	}
	close(release)
	all.Wait()
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.held != 0 || r.open != 0 || r.asking != 0 || r.kept != 0 || r.large != nil {
		t.Errorf("afterwards %d bytes held, %d kept, %d open, large %v", r.held, r.kept, r.open, r.large != nil)
	}
}

// TestWithdrawnKeepTheirRoom: who is slow to see that a call was withdrawn is not asked
// more than MaxOpen calls at once; the program's clock goes on all the same.
func TestWithdrawnKeepTheirRoom(t *testing.T) {
	var now, most atomic.Int64
	slow := make(chan struct{})
	clock := NewClock(time.Hour, func() { t.Error("expired") })
	defer clock.Stop()
	r := NewRun(t.Context(), Config{Call: func(ctx context.Context, c Call) (Reply, error) {
		n := now.Add(1)
		defer now.Add(-1)
		for m := most.Load(); n > m && !most.CompareAndSwap(m, n); m = most.Load() {
		}
		if c.Name == "answer" {
			return Reply{Result: c.Input}, nil
		}
		<-ctx.Done()
		<-slow
		return Reply{}, ctx.Err()
	}, Clock: clock, Gone: func(err error) { t.Errorf("gone: %v", err) }})
	t.Cleanup(r.Close)
	calls := dial(t, r)
	for i := range MaxOpen {
		if _, err := calls.Write(frame(t, fmt.Sprint(i), []byte("1"))); err != nil {
			t.Fatal(err)
		}
	}
	for now.Load() < MaxOpen {
		time.Sleep(time.Millisecond)
	}
	_ = calls.Close()
	if open, _ := r.Suspended(); open {
		t.Error("calls that were withdrawn are open")
	}
	clock.mu.Lock()
	if clock.standing {
		t.Error("the clock stands for calls that were withdrawn")
	}
	clock.mu.Unlock()
	next := dial(t, r)
	if n, err := next.TryWrite(frame(t, "n", []byte("1"))); err != nil || now.Load() > MaxOpen {
		t.Errorf("%d bytes were taken, %v, %d calls are asked", n, err, now.Load())
	}
	close(slow)
	if reply, err := exchange(t.Context(), dial(t, r), "answer", []byte("7")); err != nil || string(reply.Result) != "7" {
		t.Errorf("%+v, %v", reply, err)
	}
	if most.Load() > MaxOpen {
		t.Errorf("%d calls were asked at once", most.Load())
	}
}

// TestKept: answers that nobody fetches do not fill the memory.
func TestKept(t *testing.T) {
	r := newRun(t, func(context.Context, Call) (Reply, error) { return Reply{Result: large(MaxValue)}, nil })
	c := dial(t, r)
	const n = maxKept/MaxValue + 3
	for i := range n {
		if _, err := c.Write(frame(t, fmt.Sprint(i), []byte("1"))); err != nil {
			t.Fatal(err)
		}
	}
	for open := true; open; open, _ = r.Suspended() {
		time.Sleep(time.Millisecond)
	}
	r.mu.Lock()
	kept := r.kept
	r.mu.Unlock()
	if kept > maxKept+n*1000 {
		t.Errorf("%d bytes are kept", kept)
	}
	in := bufio.NewReaderSize(c, 1<<20)
	failed := 0
	for range n {
		line, err := in.ReadBytes('\n')
		if err != nil {
			t.Fatal(err)
		}
		if _, reply, err := parseReply(line); err != nil {
			t.Error(err)
		} else if reply.Error != "" {
			failed++
		}
	}
	if failed == 0 || failed == n {
		t.Errorf("%d of %d answers were replaced", failed, n)
	}
}

func TestTooManyConnections(t *testing.T) {
	r := newRun(t, func(ctx context.Context, c Call) (Reply, error) {
		if c.Name == "answer" {
			return Reply{Result: c.Input}, nil
		}
		return never(ctx, c)
	})
	var all []*Conn
	for range MaxConns {
		all = append(all, dial(t, r))
	}
	if _, err := r.Dial(); !errors.Is(err, errTooMany) {
		t.Errorf("one more: %v", err)
	}
	_ = all[0].Close()
	if _, err := r.Dial(); err != nil {
		t.Errorf("after one was closed: %v", err)
	}
	short, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if _, err := r.Ask(short, "n", []byte("1")); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a call that nothing was closed for: %v", err)
	}
	asked := make(chan error)
	go func() {
		_, err := r.Ask(t.Context(), "answer", []byte("1"))
		asked <- err
	}()
	time.Sleep(20 * time.Millisecond)
	_ = all[1].Close()
	if err := <-asked; err != nil {
		t.Errorf("a call that something was closed for: %v", err)
	}
	r.Close()
	if _, err := r.Dial(); !errors.Is(err, ErrClosed) {
		t.Errorf("after the run: %v", err)
	}
}

// TestEndlessLine: a frame without an end is one that is too long.
func TestEndlessLine(t *testing.T) {
	r := newRun(t, never)
	c := dial(t, r)
	if n, err := c.Write(make([]byte, 2*MaxFrame)); !errors.Is(err, io.ErrClosedPipe) || n > MaxFrame {
		t.Errorf("%d bytes were taken, %v", n, err)
	}
	if n, err := c.Read(make([]byte, 1)); n > 0 || !errors.Is(err, io.EOF) {
		t.Errorf("read %d, %v", n, err)
	}
}

// TestAnsweredBeforeTheFault: what was answered can be read after the connection ended.
func TestAnsweredBeforeTheFault(t *testing.T) {
	r := newRun(t, func(_ context.Context, c Call) (Reply, error) { return Reply{Result: c.Input}, nil })
	c := dial(t, r)
	_, _ = c.Write(frame(t, "1", []byte("7")))
	for open := true; open; open, _ = r.Suspended() {
		time.Sleep(time.Millisecond)
	}
	_, _ = c.Write([]byte("rubbish\n"))
	all, err := io.ReadAll(c)
	if err != nil || string(all) != "{\"id\":\"1\",\"result\":7}\n" {
		t.Errorf("%q, %v", all, err)
	}
}

// TestNoAnswerAtTheEnd: a program whose run is over is told nothing any more.
func TestNoAnswerAtTheEnd(t *testing.T) {
	ctx, end := context.WithCancel(t.Context())
	ended := make(chan struct{})
	r := NewRun(ctx, Config{Call: func(ctx context.Context, _ Call) (Reply, error) {
		defer close(ended)
		<-ctx.Done()
		return Reply{}, ctx.Err()
	}, Gone: func(err error) { t.Errorf("gone: %v", err) }})
	c := dial(t, r)
	_, _ = c.Write(frame(t, "1", []byte("7")))
	end()
	<-ended
	time.Sleep(20 * time.Millisecond)
	if c.Readable() {
		all, err := io.ReadAll(io.LimitReader(c, 1))
		t.Errorf("there is %q, %v", all, err)
	}
	r.Close()
	if all, err := io.ReadAll(c); err != nil || len(all) > 0 {
		t.Errorf("%q, %v", all, err)
	}
	if open, _ := r.Suspended(); open {
		t.Error("a call is open after the run")
	}
}

func TestGone(t *testing.T) {
	gone := make(chan error, 1)
	r := NewRun(t.Context(), Config{
		Call: func(context.Context, Call) (Reply, error) { return Reply{}, io.ErrUnexpectedEOF },
		Gone: func(err error) { gone <- err },
	})
	defer r.Close()
	reply, err := r.Ask(t.Context(), "n", []byte("{}"))
	if err != nil || reply.Error == "" || !errors.Is(<-gone, io.ErrUnexpectedEOF) {
		t.Errorf("%+v, %v", reply, err)
	}
}

// FuzzConn: whatever a program writes, in whatever pieces, the account is even.
func FuzzConn(f *testing.F) {
	f.Add([]byte("{\"id\":\"1\",\"name\":\"n\",\"input\":1}\n{\"id\":\"2\",\"name\":\"n\",\"input\":1}\nx\n"), uint8(3))
	f.Fuzz(func(t *testing.T, text []byte, piece uint8) {
		r := NewRun(t.Context(), Config{
			Call: func(_ context.Context, c Call) (Reply, error) { return Reply{Result: c.Input}, nil },
			Gone: func(error) {},
		})
		defer r.Close()
		c, err := r.Dial()
		if err != nil {
			t.Fatal(err)
		}
		done := make(chan struct{})
		go func() {
			defer close(done)
			_, _ = io.Copy(io.Discard, onlyReader{c})
		}()
		for p := text; len(p) > 0; {
			n := min(len(p), int(piece)+1)
			if _, err := c.Write(p[:n]); err != nil {
				break
			}
			p = p[n:]
		}
		_ = c.Close()
		<-done
		r.Close()
		r.mu.Lock()
		defer r.mu.Unlock()
		if r.open != 0 || r.asking != 0 || r.held != 0 || r.kept != 0 || len(r.conns) != 0 || r.large != nil {
			t.Fatalf("%d open, %d held, %d kept, %d connections", r.open, r.held, r.kept, len(r.conns))
		}
	})
}

func TestClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		expired := make(chan time.Time, 1)
		c := NewClock(10*time.Second, func() { expired <- time.Now() })
		time.Sleep(9 * time.Second)
		c.Stand()
		c.Stand()
		time.Sleep(time.Hour)
		if got := c.Spent(); got != 9*time.Second {
			t.Errorf("spent %v", got)
		}
		c.Go()
		c.Go()
		began := time.Now()
		if got := (<-expired).Sub(began); got != 10*time.Second {
			t.Errorf("it expired after %v", got)
		}
		c.Stop()
		c.Go()
		if got := c.Spent(); got != 19*time.Second {
			t.Errorf("spent %v", got)
		}
		// A clock that stands is stopped for good.
		c = NewClock(time.Second, func() { t.Error("expired") })
		c.Stand()
		c.Stop()
		c.Go()
		time.Sleep(time.Minute)
	})
}

// TestBeside: only what is used while calls are open counts.
func TestBeside(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var used atomic.Int64 // the program uses what the test says
		r := NewRun(t.Context(), Config{Call: func(ctx context.Context, c Call) (Reply, error) {
			select {
			case <-time.After(10 * time.Second):
			case <-ctx.Done():
			}
			return Reply{Result: []byte("1")}, nil
		}, Gone: func(error) {}})
		defer r.Close()
		expired := make(chan struct{})
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() {
			defer close(done)
			Beside{
				Used:   func() (time.Duration, error) { return time.Duration(used.Load()), nil },
				Limit:  5 * time.Second,
				Expire: func() { close(expired) },
			}.Watch(ctx, r)
		}()
		ask := func(beside time.Duration) {
			go func() { _, _ = r.Ask(ctx, "n", []byte("1")) }()
			time.Sleep(time.Second)
			used.Add(int64(beside))
			time.Sleep(time.Minute)
		}
		used.Add(int64(time.Hour)) // before
		ask(3 * time.Second)
		used.Add(int64(time.Hour)) // in between
		time.Sleep(time.Second)
		ask(time.Second)
		select {
		case <-expired:
			t.Fatal("it expired too early")
		default:
		}
		ask(2 * time.Second)
		select {
		case <-expired:
		default:
			t.Error("it did not expire")
		}
		cancel()
		<-done
	})
}

// TestBesideLooksSeldom: a program that waits is hardly looked at, and one that computes
// on all processors is stopped as soon as ever.
func TestBesideLooksSeldom(t *testing.T) {
	const limit, long = time.Minute, 10 * time.Minute
	cpus := time.Duration(runtime.NumCPU())
	for _, busy := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			r := newRun(t, never)
			defer r.Close()
			ctx, cancel := context.WithTimeout(t.Context(), long)
			defer cancel()
			go func() { _, _ = r.Ask(ctx, "n", []byte("1")) }()
			synctest.Wait()
			began, looks := time.Now(), 0
			var expired time.Duration
			Beside{Used: func() (time.Duration, error) {
				looks++
				if busy {
					return cpus * time.Since(began), nil
				}
				return 0, nil
			}, Limit: limit, Expire: func() { expired = time.Since(began) }}.Watch(ctx, r)
			if busy && (expired < limit/cpus || expired > limit/cpus+2*besideInterval) || !busy && expired != 0 {
				t.Errorf("busy %v: expired after %v", busy, expired)
			}
			if most := int(long/(limit/cpus/fastest)) + 20; looks > most {
				t.Errorf("busy %v: %d looks, want at most %d", busy, looks, most)
			}
		})
	}
}
