package main

import "testing"

func TestOpenFiles(t *testing.T) {
	for _, c := range []struct {
		process  int64
		programs int
		want     int
	}{
		{1 << 20, 4, 256},
		{1 << 62, 128, 256},
		{4096, 4, 256},
		{4096, 16, 64},
		{4096, 128, 16},
		{64, 4, 16},
	} {
		if got := openFiles(c.process, c.programs, 256); got != c.want {
			t.Errorf("%d descriptors, %d programs: %d each, want %d", c.process, c.programs, got, c.want)
		}
	}
}
