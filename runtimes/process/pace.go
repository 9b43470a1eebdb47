package process

import (
	"bytes"
	"io"
	"time"

	"golang.org/x/time/rate"
)

// How fast the output of a plugin is read, beyond a burst. One that prints more waits
// for its reader: else what it prints, most of which is dropped, would take the
// processors from every other plugin and from the host.
const (
	readPerSecond = 16 << 20
	readBurst     = 4 << 20
	// lineCost is what a line costs beside its bytes, as bytes.
	lineCost = 400
)

// paced reads the output of a plugin at its pace. Once the plugin is dead it does not
// wait any more: what is left is what fits into a pipe.
type paced struct {
	r    io.Reader
	dead <-chan struct{}
	pace *rate.Limiter
}

func newPaced(r io.Reader, dead <-chan struct{}) paced {
	return paced{r, dead, rate.NewLimiter(readPerSecond, readBurst)}
}

func (p paced) Read(b []byte) (int, error) {
	// The cost of one read is within the burst, of short lines too.
	n, err := p.r.Read(b[:min(len(b), readBurst/(2*lineCost))])
	now := time.Now()
	wait := p.pace.ReserveN(now, n+lineCost*bytes.Count(b[:n], []byte{'\n'})).DelayFrom(now)
	if wait <= 0 {
		return n, err
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-p.dead:
	}
	return n, err
}
