//go:build linux

package tree

import (
	"testing"

	"golang.org/x/sys/unix"
)

func TestModes(t *testing.T) {
	for _, c := range []struct{ asked, disk, told uint32 }{
		{0o644, 0o664, 0o644},
		{0o755, 0o775, 0o755},
		{0o600, 0o660, 0o600},
		{0o400, 0o440, 0o400},
		{0o666, 0o666, 0o666},
		{0o4777, 0o777, 0o777}, // no special bits
	} {
		if got := diskMode(c.asked); got != c.disk || Mode(got) != c.told {
			t.Errorf("%#o is %#o on disk and told as %#o, want %#o and %#o", c.asked, got, Mode(got), c.disk, c.told)
		}
	}
}

func TestMended(t *testing.T) {
	for _, c := range []struct{ kind, mode, want uint32 }{
		{unix.S_IFREG, 0o664, 0o664},
		{unix.S_IFREG, 0o600, 0o660},
		{unix.S_IFREG, 0o444, 0o444},
		{unix.S_IFREG, 0o000, 0o440},
		{unix.S_IFREG, 0o200, 0o660},
		{unix.S_IFREG, 0o755, 0o775},
		{unix.S_IFREG, 0o640, 0o660},
		{unix.S_IFDIR, 0o2775, 0o2775},
		{unix.S_IFDIR, 0o700, 0o2770},
		{unix.S_IFDIR, 0o000, 0o2770},
		{unix.S_IFDIR, 0o1777, 0o2777},
	} {
		got, differs := mended(&unix.Stat_t{Mode: c.kind | c.mode})
		if got != c.want || differs != (c.want != c.mode) {
			t.Errorf("%#o becomes %#o, %v; want %#o", c.mode, got, differs, c.want)
		}
		if again, differs := mended(&unix.Stat_t{Mode: c.kind | got}); differs {
			t.Errorf("%#o becomes %#o and then %#o", c.mode, got, again)
		}
	}
	for _, kind := range []uint32{unix.S_IFLNK, unix.S_IFIFO, unix.S_IFSOCK, unix.S_IFCHR} {
		if _, differs := mended(&unix.Stat_t{Mode: kind}); differs {
			t.Errorf("something of type %#o is mended", kind)
		}
	}
}
