//go:build !linux

package hostbackend

import (
	"context"

	"github.com/caisson-run/caisson/sdk/backend"
)

const hasTerminals = false

// OpenTerminal implements backend.TerminalOpener.
func (b *Backend) OpenTerminal(context.Context, backend.TerminalSpec) (backend.Terminal, error) {
	return nil, backend.Errorf(backend.KindUnsupported, "OpenTerminal", "there are no terminals here")
}
