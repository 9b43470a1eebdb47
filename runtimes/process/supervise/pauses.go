package supervise

import "time"

// pauses decides how long to wait before the next start, and when to give up.
type pauses struct {
	settings Settings
	jitter   func() float64
	last     time.Duration
	known    bool        // last is that of an earlier end
	ends     []time.Time // within the window
}

// after counts an end and returns the pause that follows it, or that there were
// too many. Pauses grow with decorrelated jitter, so that programs that fall
// together do not rise together.
func (p *pauses) after(e End) (pause time.Duration, tooOften bool) {
	kept := p.ends[:0]
	for _, t := range p.ends {
		if e.At.Sub(t) < p.settings.Window {
			kept = append(kept, t)
		}
	}
	p.ends = append(kept, e.At)
	if len(p.ends) >= p.settings.Crashes {
		return 0, true
	}
	switch {
	case !p.known && e.Uptime > 0:
		p.known = true // the first end costs no pause; a failed start does
	default:
		p.known = true
		spread := max(3*p.last, 3*p.settings.MinPause) - p.settings.MinPause
		p.last = p.settings.MinPause + time.Duration(p.jitter()*float64(spread))
		p.last = min(p.last, p.settings.MaxPause)
	}
	return p.last, false
}

// steady forgets the pauses: what ran for long may start at once. The ends still
// count.
func (p *pauses) steady() { p.last, p.known = 0, false }
