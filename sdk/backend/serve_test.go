package backend

import (
	"bytes"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/hashicorp/go-hclog"
)

// slow is a backend whose Close waits for leave.
type slow struct {
	Backend
	leave chan struct{}
}

func (s slow) Close() error {
	<-s.leave
	return nil
}

func TestCloseBackendTakesTooLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		b := slow{leave: make(chan struct{})}
		closeBackend(b, hclog.New(&hclog.LoggerOptions{Output: &out, JSONFormat: true}))
		close(b.leave)
		if !strings.Contains(out.String(), `"limit":"1.5s"`) {
			t.Errorf("log = %s, want the limit as people write it", out.String())
		}
	})
}
