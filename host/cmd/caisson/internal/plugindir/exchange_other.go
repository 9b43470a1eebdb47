//go:build !linux

package plugindir

// exchange puts fresh in the place of to.
func exchange(fresh, to, old string) error { return move(fresh, to, old) }
