//go:build linux

package work

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
)

// read reads a log to its end from a position, waiting for what comes.
func read(l *Log, at Position) (out [streams]string) {
	for {
		stream, data, wait := l.Next(&at)
		switch {
		case data != nil:
			out[stream] += string(data)
		case wait != nil:
			<-wait
		default:
			return out
		}
	}
}

// Every reader, whenever it begins and wherever, gets the same, in the same order.
func TestLog(t *testing.T) {
	l := NewLog(10_000, 500)
	var want [streams]bytes.Buffer
	r := rand.New(rand.NewPCG(1, 2))
	var readers sync.WaitGroup
	got := make([][streams]string, 20)
	for i := range got {
		readers.Go(func() { got[i] = read(l, l.From(0)) })
	}
	for i := range 2000 {
		stream := r.IntN(streams)
		p := []byte(fmt.Sprint(i, " "))
		l.append(stream, p)
		want[stream].Write(p)
	}
	l.close()
	readers.Wait()
	total, kept := l.counts()
	for i, limit := range []int{10_000, 500} {
		all := want[i].String()
		if total[i] != int64(len(all)) || kept[i] != int64(min(len(all), limit)) {
			t.Errorf("stream %d: %d of %d bytes kept", i, kept[i], total[i])
		}
		for j, g := range got {
			if g[i] != all[:kept[i]] {
				t.Fatalf("reader %d of stream %d got other %d bytes", j, i, len(g[i]))
			}
		}
	}
	// From any offset the rest comes, which together with what came before is all.
	whole := read(l, l.From(0))
	var flat []byte
	for p := l.From(0); ; {
		_, data, _ := l.Next(&p)
		if data == nil {
			break
		}
		flat = append(flat, data...)
	}
	for offset := range len(flat) + 1 {
		var rest []byte
		for p := l.From(int64(offset)); ; {
			_, data, _ := l.Next(&p)
			if data == nil {
				break
			}
			rest = append(rest, data...)
		}
		if !bytes.Equal(rest, flat[offset:]) {
			t.Fatalf("from %d there are %d bytes, want %d", offset, len(rest), len(flat)-offset)
		}
	}
	if len(whole[0])+len(whole[1]) != len(flat) {
		t.Errorf("%d and %d bytes, %d together", len(whole[0]), len(whole[1]), len(flat))
	}
}

// A position at the end of what is there goes on when the same stretch grows.
func TestLogGrows(t *testing.T) {
	l := NewLog(100, 100)
	l.append(stdout, []byte("ab"))
	at := l.From(2)
	l.append(stdout, []byte("cd"))
	l.append(stderr, []byte("e"))
	l.close()
	if got := read(l, at); got[stdout] != "cd" || got[stderr] != "e" {
		t.Errorf("%q", got)
	}
}
