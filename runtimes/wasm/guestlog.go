package wasm

import (
	"strings"
	"sync/atomic"
	"unicode"

	"github.com/hashicorp/go-hclog"
	"golang.org/x/time/rate"
)

const (
	// maxLogBytes bounds one message.
	maxLogBytes = 2 << 10
	// logRate and logBurst bound the messages of one module, in lines and lines per
	// second.
	logRate  = 50
	logBurst = 200
)

// guestLog passes the messages of one module's guests on, as many as are useful.
type guestLog struct {
	log     hclog.Logger
	limit   *rate.Limiter
	dropped atomic.Uint64
	// unsaid counts the drops since the last message that came through.
	unsaid atomic.Uint64
}

func newGuestLog(log hclog.Logger) *guestLog {
	return &guestLog{log: log, limit: rate.NewLimiter(logRate, logBurst)}
}

// write logs text, which it does not keep.
func (g *guestLog) write(level uint32, text []byte, cut bool) {
	l := hclog.Info
	if level >= uint32(hclog.Trace) && level <= uint32(hclog.Error) {
		l = hclog.Level(level) // the ABI numbers levels as hclog does
	}
	if l < g.log.GetLevel() {
		return
	}
	if !g.limit.Allow() {
		g.dropped.Add(1)
		g.unsaid.Add(1)
		return
	}
	if n := g.unsaid.Swap(0); n > 0 {
		g.log.Warn("module logs too much, messages were dropped", "dropped", n)
	}
	message := printable(text)
	if cut {
		message += " …"
	}
	g.log.Log(l, message)
}

// printable makes a guest's bytes one line of text.
func printable(text []byte) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(string(text), "\uFFFD"))
}
