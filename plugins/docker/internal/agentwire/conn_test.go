package agentwire

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m)
}

// pair returns two connected sides.
func pair(t *testing.T, serve func(*Stream)) (*Conn, *Conn) {
	t.Helper()
	a, b := socket(t)
	server, client := NewServer(b, serve), NewClient(a)
	t.Cleanup(func() { _ = client.Close(); _ = server.Close() })
	return client, server
}

func socket(t *testing.T) (a, b net.Conn) {
	t.Helper()
	l, err := net.Listen("unix", t.TempDir()+"/s")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if a, err = net.Dial("unix", l.Addr().String()); err != nil {
		t.Fatal(err)
	}
	if b, err = l.Accept(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = a.Close(); _ = b.Close() })
	return a, b
}

// echo sends back what it gets on the content channel, until its end.
func echo(s *Stream) {
	ctx := context.Background()
	total := 0
	for {
		it, err := s.Recv(ctx)
		if err != nil || it.Message {
			break
		}
		total += len(it.Data)
		if s.Send(ctx, it.Channel, it.Data) != nil {
			break
		}
	}
	s.End(Answer(&Number{total}, nil))
}

func TestStreams(t *testing.T) {
	client, _ := pair(t, echo)
	var wg sync.WaitGroup
	for i := range 20 {
		wg.Go(func() {
			ctx := t.Context()
			s, err := client.Open(ctx, OpDial, &Number{i})
			if err != nil {
				t.Error(err)
				return
			}
			want := bytes.Repeat([]byte{byte(i)}, 1<<20+i)
			go func() {
				if err := s.Send(ctx, ChanContent, want); err != nil {
					t.Error(err)
				}
				if err := s.SendMessage(ctx, ChanContent, &ContentEnd{}); err != nil {
					t.Error(err)
				}
			}()
			var got []byte
			for {
				it, err := s.Recv(ctx)
				if errors.Is(err, io.EOF) {
					break
				}
				if err != nil {
					t.Error(err)
					return
				}
				got = append(got, it.Data...)
			}
			var n Number
			if err := s.Answer(&n); err != nil || n.N != len(want) || !bytes.Equal(got, want) {
				t.Errorf("stream %d: %d bytes came back as %d, answer %d: %v", i, len(want), len(got), n.N, err)
			}
			if err := s.Send(ctx, ChanContent, []byte("late")); !errors.Is(err, io.ErrClosedPipe) {
				t.Errorf("sending after the answer: %v", err)
			}
		})
	}
	wg.Wait()
}

// TestFlowControl: who does not read holds up nobody else, and the sender waits.
func TestFlowControl(t *testing.T) {
	release := make(chan struct{})
	client, _ := pair(t, func(s *Stream) {
		if s.Op() == OpStatus {
			s.End(Answer(&Empty{}, nil))
			return
		}
		<-release
		echo(s)
	})
	ctx := t.Context()
	stuck, err := client.Open(ctx, OpDial, &Empty{})
	if err != nil {
		t.Fatal(err)
	}
	short, cancel := context.WithTimeout(ctx, 50*time.Millisecond)
	defer cancel()
	if err := stuck.Send(short, ChanContent, make([]byte, 2*Window)); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("more than the window was taken: %v", err)
	}
	for range 10 {
		s, err := client.Open(ctx, OpStatus, &Empty{})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.Recv(ctx); !errors.Is(err, io.EOF) {
			t.Fatal(err)
		}
	}
	close(release)
	stuck.Leave()
}

// TestCreditOfNothing: who leaves before its turn to write has used no credit, and whoever
// waits for some gets it.
func TestCreditOfNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ours, theirs := net.Pipe()
		go func() { _, _ = io.Copy(io.Discard, theirs) }()
		conn := NewClient(ours)
		defer conn.Close()
		s, err := conn.Open(t.Context(), OpDial, &Empty{})
		if err != nil {
			t.Fatal(err)
		}
		p := make([]byte, 10)
		s.credit = cost(1 + len(p)) // for one of the two
		if err := conn.lock(t.Context()); err != nil {
			t.Fatal(err)
		}
		send := func(ctx context.Context) <-chan error {
			done := make(chan error, 1)
			go func() { done <- s.Send(ctx, ChanContent, p) }()
			synctest.Wait()
			return done
		}
		first, leave := context.WithCancel(t.Context())
		left := send(first)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		sent := send(ctx)
		leave()
		if err := <-left; !errors.Is(err, context.Canceled) {
			t.Errorf("the first: %v", err)
		}
		conn.unlock()
		if err := <-sent; err != nil || s.credit != 0 {
			t.Errorf("the second: %v, a credit of %d is left", err, s.credit)
		}
	})
}

// TestCancel: the agent learns that nobody waits, and what it still sends is dropped.
func TestCancel(t *testing.T) {
	canceled := make(chan error, 1)
	client, server := pair(t, func(s *Stream) {
		<-s.Canceled()
		_, err := s.Recv(context.Background())
		canceled <- err
		_ = s.Send(context.Background(), ChanStdout, make([]byte, Window/2))
		s.End(Answer(&Empty{}, nil))
	})
	s, err := client.Open(t.Context(), OpDial, &Empty{})
	if err != nil {
		t.Fatal(err)
	}
	s.Leave()
	if err := <-canceled; !errors.Is(err, io.EOF) {
		t.Errorf("Recv of a cancelled request: %v", err)
	}
	for range 200 { // the answer ends the stream
		client.mu.Lock()
		n := len(client.streams)
		client.mu.Unlock()
		if n == 0 {
			break
		}
		time.Sleep(5 * time.Millisecond)
	}
	client.mu.Lock()
	defer client.mu.Unlock()
	if len(client.streams) > 0 || server.Err() != nil {
		t.Errorf("%d streams are left, %v", len(client.streams), server.Err())
	}
}

// TestLost: everybody who waits learns that the connection has ended.
func TestLost(t *testing.T) {
	started := make(chan struct{})
	client, server := pair(t, func(s *Stream) {
		close(started)
		<-s.Canceled()
		if !s.Lost() {
			t.Error("the stream is cancelled and not lost")
		}
	})
	s, err := client.Open(t.Context(), OpDial, &Empty{})
	if err != nil {
		t.Fatal(err)
	}
	<-started
	server.Fail(errors.New("cut"))
	if _, err := s.Recv(t.Context()); err == nil || errors.Is(err, io.EOF) {
		t.Errorf("Recv: %v", err)
	}
	<-client.Done()
	if _, err := client.Open(t.Context(), OpStatus, &Empty{}); err == nil {
		t.Error("a stream was opened on a connection that has ended")
	}
	if err := s.Send(t.Context(), ChanContent, []byte("x")); err == nil {
		t.Error("something was sent")
	}
}

// TestProtocolErrors: whatever the other side does wrong ends the connection.
func TestProtocolErrors(t *testing.T) {
	data := appendFrame(nil, KindData, 1, make([]byte, 1+MaxData))
	flood := bytes.Repeat(data, Window/MaxData+1)
	empty := bytes.Repeat(appendFrame(nil, KindMessage, 1, []byte{1}), Window/frameCost)
	open := appendFrame(nil, KindOpen, 1, []byte{byte(OpDial)})
	for name, b := range map[string][]byte{
		"more than the window":      append(bytes.Clone(open), flood...),
		"too many empty messages":   append(bytes.Clone(open), empty...),
		"a stream twice":            append(bytes.Clone(open), open...),
		"data of no stream":         data,
		"an answer":                 append(bytes.Clone(open), appendFrame(nil, KindEnd, 1, []byte{0})...),
		"more credit than there is": append(bytes.Clone(open), appendFrame(nil, KindCredit, 1, []byte{0, 0, 0, 1})...),
	} {
		t.Run("to the agent: "+name, func(t *testing.T) {
			a, s := socket(t)
			server := NewServer(s, func(st *Stream) { <-st.Canceled() })
			defer server.Close()
			go func() { _, _ = a.Write(b) }()
			<-server.Done()
			if !errors.Is(server.Err(), ErrProtocol) {
				t.Errorf("it ended with %v", server.Err())
			}
		})
	}
	for name, b := range map[string][]byte{
		"a request":                open,
		"a cancellation":           appendFrame(nil, KindCancel, 1),
		"more than the window":     flood,
		"of a stream never opened": appendFrame(nil, KindData, 9, []byte{1}),
		"after the answer":         append(appendFrame(nil, KindEnd, 1, []byte{0}), data...),
	} {
		t.Run("to the plugin: "+name, func(t *testing.T) {
			a, s := socket(t)
			client := NewClient(s)
			defer client.Close()
			if _, err := client.Open(t.Context(), OpDial, &Empty{}); err != nil {
				t.Fatal(err)
			}
			go func() { _, _ = a.Write(b) }()
			<-client.Done()
			if !errors.Is(client.Err(), ErrProtocol) {
				t.Errorf("it ended with %v", client.Err())
			}
		})
	}
}

// FuzzConn: no bytes make either side panic, wait for ever or answer what was not asked.
func FuzzConn(f *testing.F) {
	f.Add(true, appendFrame(nil, KindOpen, 1, []byte{byte(OpStatus)}))
	f.Add(false, appendFrame(nil, KindEnd, 1, []byte{0}))
	f.Fuzz(func(t *testing.T, server bool, b []byte) {
		a, s := net.Pipe()
		var c *Conn
		if server {
			c = NewServer(s, echo)
		} else {
			c = NewClient(s)
		}
		go func() { _, _ = io.Copy(io.Discard, a) }()
		if !server {
			if _, err := c.Open(context.Background(), OpDial, &Empty{}); err != nil {
				t.Fatal(err)
			}
		}
		_ = a.SetWriteDeadline(time.Now().Add(5 * time.Second))
		if _, err := a.Write(b); err != nil && errors.Is(err, os.ErrDeadlineExceeded) {
			t.Error("the connection does not read")
		}
		_ = a.Close()
		<-c.Done()
		_ = c.Close()
	})
}

func BenchmarkRoundTrip(b *testing.B) {
	x, y := net.Pipe()
	server, client := NewServer(y, func(s *Stream) { s.End(Answer(&Empty{}, nil)) }), NewClient(x)
	defer client.Close()
	defer server.Close()
	b.ReportAllocs()
	for b.Loop() {
		s, err := client.Open(b.Context(), OpStatus, &Empty{})
		if err != nil {
			b.Fatal(err)
		}
		if _, err := s.Recv(b.Context()); !errors.Is(err, io.EOF) {
			b.Fatal(fmt.Errorf("no answer: %w", err))
		}
	}
}
