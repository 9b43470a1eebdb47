package main

import "testing"

func TestDivide(t *testing.T) {
	for _, c := range []struct {
		process        int64
		running        int
		calling, files int
	}{
		{1 << 20, 4, 256, 256},
		{1 << 62, 128, 256, 256},
		{20_000, 8, 83, 64},
		{4096, 4, 10, 67},
		{4096, 16, 8, 37},
		{4096, 128, 8, 16},
		{64, 4, 8, 16},
	} {
		calling, files := divide(c.process, c.running, 256)
		if calling != c.calling || files != c.files {
			t.Errorf("%d descriptors, %d programs: %d that may call, %d files each, want %d, %d", c.process, c.running, calling, files, c.calling, c.files)
		}
		if all := int64((c.running+calling)*(files*directories+eachDescriptors) + ownDescriptors); all > c.process && files > leastFiles {
			t.Errorf("%d descriptors of %d may be used", all, c.process)
		}
	}
	if r := findRoom(); r.calling < leastCalling || r.callingBytes < 0 || r.quota.OpenFiles < leastFiles {
		t.Errorf("%+v", r)
	}
}
