package machine

import (
	"errors"
	"testing"
)

func TestMemory(t *testing.T) {
	if m := Memory(); m < 64<<20 {
		t.Errorf("there are %d bytes of memory", m)
	}
}

func TestGroupLimit(t *testing.T) {
	files := map[string]string{
		"/sys/fs/cgroup/a/memory.max":   "4096\n",
		"/sys/fs/cgroup/a/b/memory.max": "max\n",
		"/sys/fs/cgroup/c/memory.max":   "1024\n",
		"/sys/fs/cgroup/c/d/memory.max": "2048\n",
		"/sys/fs/cgroup/e/memory.max":   "nonsense",
	}
	read := func(name string) ([]byte, error) {
		if s, ok := files[name]; ok {
			return []byte(s), nil
		}
		return nil, errors.New("no such file")
	}
	for own, want := range map[string]int64{
		"0::/a\n":                    4096,
		"0::/a/b\n":                  4096, // of the group above
		"12:cpu:/x\n0::/c/d\n":       1024,
		"0::/e\n":                    0,
		"0::/\n":                     0,
		"":                           0,
		"0::/../../../etc\n":         0,
		"0::/a/../c\n":               1024,
		"1:memory:/a\n2:cpuset:/a\n": 0,
	} {
		if got := groupLimit(own, read); got != want {
			t.Errorf("groupLimit(%q) = %d, want %d", own, got, want)
		}
	}
}
