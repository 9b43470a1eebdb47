package host

import (
	"errors"
	"fmt"
)

// ErrNoPlugin is in the errors about a name that no plugin has.
var ErrNoPlugin = errors.New("no such plugin")

// noPlugin says that nothing of a kind has a name.
type noPlugin struct{ what, name string }

func (e noPlugin) Error() string        { return fmt.Sprintf("no %s is called %q", e.what, e.name) }
func (e noPlugin) Is(target error) bool { return target == ErrNoPlugin }

// ResetPlugin forgets the past failures of a backend plugin and starts it now if
// it is in a pause or in quarantine. A running one is left alone.
func (h *Host) ResetPlugin(name string) error {
	l := h.backends.line(name)
	if l == nil {
		return noPlugin{"running backend", name}
	}
	if p := l.program(); p != nil {
		p.sup.Reset()
	}
	for _, s := range *l.stays.Load() {
		s.program.sup.Reset()
	}
	return nil
}
