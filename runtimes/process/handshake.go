package process

import (
	"errors"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"
	"sync"

	"github.com/hashicorp/go-plugin"

	"github.com/caisson-run/caisson/internal/pluginwire"
)

// maxStray is how many lines before the handshake are put down to a program
// that prints while it starts.
const maxStray = 100

// handshake reads a plugin's standard output. The first line of the right shape
// is passed on, once it is verified; every other line is logged.
type handshake struct {
	verify func(network, address string) error
	logs   *bridge
	lines  *splitter

	pr *io.PipeReader
	pw *io.PipeWriter

	mu    sync.Mutex
	stray int
	first string // first stray line
	found bool
	addr  string
	err   error
}

func newHandshake(verify func(network, address string) error, logs *bridge) *handshake {
	h := &handshake{verify: verify, logs: logs}
	h.lines = newSplitter(func(line []byte) { h.line(string(line)) })
	h.pr, h.pw = io.Pipe()
	return h
}

// Write takes standard output as it comes.
func (h *handshake) Write(p []byte) (int, error) { return h.lines.Write(p) }

// Close says that there will be no more.
func (h *handshake) Close() error {
	h.lines.flush()
	return h.pw.Close()
}

func (h *handshake) reader() io.ReadCloser { return h.pr }

// shape is that of go-plugin's line: core|protocol|network|address|kind|...
var shape = regexp.MustCompile(`^\s*(\d{1,9})\|(\d{1,9})\|([a-z]+)\|([^|]+)\|([a-z]+)(\||\s*$)`)

func (h *handshake) line(line string) {
	h.mu.Lock()
	fields := shape.FindStringSubmatch(line)
	if h.found || h.err != nil || fields == nil {
		if !h.found && h.err == nil {
			if h.stray++; h.stray == 1 {
				h.first = line
			}
			if h.stray > maxStray {
				h.fail(errors.New("it writes to standard output instead of starting"))
			}
		}
		h.mu.Unlock()
		h.logs.stray(line)
		return
	}
	err := h.accept(fields)
	if err != nil {
		h.fail(err)
	} else {
		h.found, h.addr = true, fields[4]
	}
	h.mu.Unlock()
	if err == nil {
		// Its reader, go-plugin's scanner, reads until the end.
		_, _ = io.WriteString(h.pw, strings.TrimSpace(line)+"\n")
	}
}

// fail is called with mu held.
func (h *handshake) fail(err error) {
	h.err = err
	_ = h.pw.CloseWithError(err)
}

func (h *handshake) accept(fields []string) error {
	core, _ := strconv.Atoi(fields[1])
	version, _ := strconv.Atoi(fields[2])
	switch {
	case core != plugin.CoreProtocolVersion:
		return fmt.Errorf("it speaks version %d of go-plugin's handshake, this host version %d", core, plugin.CoreProtocolVersion)
	case version > pluginwire.ProtocolVersion:
		return fmt.Errorf("it speaks version %d of the backend protocol, this host version %d: upgrade the host", version, pluginwire.ProtocolVersion)
	case version < pluginwire.ProtocolVersion:
		return fmt.Errorf("it speaks version %d of the backend protocol, this host version %d: upgrade the plugin", version, pluginwire.ProtocolVersion)
	case fields[5] != string(plugin.ProtocolGRPC):
		return fmt.Errorf("it speaks %q, not grpc", fields[5])
	}
	return h.verify(fields[3], fields[4])
}

// outcome says whether there was a handshake, what was printed before it or
// instead of it, and why it is not acceptable.
func (h *handshake) outcome() (found bool, stray string, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.found, h.first, h.err
}

func (h *handshake) address() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.addr
}

func clip(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return strings.ToValidUTF8(s[:n], "") + "…"
}
