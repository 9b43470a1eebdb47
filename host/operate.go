package host

import "fmt"

// ResetPlugin forgets the past failures of a backend plugin and starts it now if
// it is in a pause or in quarantine. A running one is left alone.
func (h *Host) ResetPlugin(name string) error {
	l := h.backends.line(name)
	if l == nil {
		return fmt.Errorf("no running backend is called %q", name)
	}
	if p := l.program(); p != nil {
		p.sup.Reset()
	}
	for _, s := range *l.stays.Load() {
		s.program.sup.Reset()
	}
	return nil
}
