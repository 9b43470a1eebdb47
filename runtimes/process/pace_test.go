package process

import (
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// What a plugin prints is read whole, at a bounded pace while it lives.
func TestPace(t *testing.T) {
	for _, c := range []struct {
		name, text  string
		least, most time.Duration
	}{
		{"within the burst", strings.Repeat(strings.Repeat("x", 99)+"\n", readBurst/(100+lineCost)), 0, 0},
		{"bytes", strings.Repeat("x", readBurst+4*readPerSecond), 4 * time.Second, 4 * time.Second},
		{"empty lines", strings.Repeat("\n", (readBurst+2*readPerSecond)/(1+lineCost)), 1990 * time.Millisecond, 2 * time.Second},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				began := time.Now()
				n, err := io.Copy(io.Discard, newPaced(strings.NewReader(c.text), nil))
				if took := time.Since(began); err != nil || n != int64(len(c.text)) || took < c.least || took > c.most+time.Millisecond {
					t.Errorf("%d of %d bytes in %v, %v", n, len(c.text), took, err)
				}
				dead := make(chan struct{})
				close(dead)
				began = time.Now()
				if n, err = io.Copy(io.Discard, newPaced(strings.NewReader(c.text), dead)); err != nil || n != int64(len(c.text)) || time.Since(began) > 0 {
					t.Errorf("of a dead one %d bytes in %v, %v", n, time.Since(began), err)
				}
			})
		})
	}
}
