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

// tree is what a process may read.
type tree map[string]string

func (f tree) read(name string) ([]byte, error) {
	if s, ok := f[name]; ok {
		return []byte(s), nil
	}
	return nil, errors.New("no such file")
}

func (f tree) with(own, mounts string) tree {
	out := tree{"/proc/self/cgroup": own, "/proc/self/mountinfo": mounts}
	for name, s := range f {
		out[name] = s
	}
	return out
}

func TestGroupLimit(t *testing.T) {
	files := tree{
		"/sys/fs/cgroup/a/memory.max":   "4096\n",
		"/sys/fs/cgroup/a/b/memory.max": "max\n",
		"/sys/fs/cgroup/c/memory.max":   "1024\n",
		"/sys/fs/cgroup/c/d/memory.max": "2048\n",
		"/sys/fs/cgroup/e/memory.max":   "nonsense",
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
		if got := groupLimit(files.with(own, "").read); got != want {
			t.Errorf("groupLimit(%q) = %d, want %d", own, got, want)
		}
	}
}

func TestGroupLimitOfVersion1(t *testing.T) {
	const (
		at    = "35 31 0:32 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory\n"
		cpu   = "32 31 0:29 / /sys/fs/cgroup/cpu rw,relatime - cgroup cgroup rw,cpu\n"
		both  = at + cpu + "41 31 0:38 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw\n"
		bound = "35 31 0:32 /docker/abc /sys/fs/cgroup/memory ro,relatime master:9 - cgroup cgroup rw,memory\n"
		never = "9223372036854771712\n"
	)
	for name, c := range map[string]struct {
		own, mounts string
		files       tree
		want        int64
	}{
		"own": {"4:memory:/a\n0::/\n", at, tree{"/sys/fs/cgroup/memory/a/memory.limit_in_bytes": "6442450944\n", "/sys/fs/cgroup/memory/memory.limit_in_bytes": never}, 6442450944},
		"above": {"4:memory:/a/b\n", at, tree{
			"/sys/fs/cgroup/memory/a/b/memory.limit_in_bytes": never, "/sys/fs/cgroup/memory/a/memory.limit_in_bytes": "4096\n",
		}, 4096},
		"no limit":          {"4:memory:/a\n", at, tree{"/sys/fs/cgroup/memory/a/memory.limit_in_bytes": never}, 0},
		"of another kind":   {"1:cpu:/a\n", cpu, tree{"/sys/fs/cgroup/cpu/a/memory.limit_in_bytes": "1\n"}, 0},
		"several in one":    {"4:cpuset,memory:/a\n", "35 31 0:32 / /sys/fs/cgroup/x rw - cgroup cgroup rw,cpuset,memory\n", tree{"/sys/fs/cgroup/x/a/memory.limit_in_bytes": "4096\n"}, 4096},
		"not mounted there": {"4:memory:/a\n", cpu, tree{"/sys/fs/cgroup/memory/a/memory.limit_in_bytes": "4096\n"}, 4096},
		"both versions": {"4:memory:/a\n0::/u\n", both, tree{
			"/sys/fs/cgroup/memory/a/memory.limit_in_bytes": "8192\n", "/sys/fs/cgroup/unified/u/memory.max": "4096\n",
		}, 4096},
		// In a container, whose mount is the group itself.
		"bound": {"4:memory:/docker/abc\n", bound, tree{"/sys/fs/cgroup/memory/memory.limit_in_bytes": "4096\n"}, 4096},
		"bound and below": {"4:memory:/docker/abc/x\n", bound, tree{
			"/sys/fs/cgroup/memory/memory.limit_in_bytes": "8192\n", "/sys/fs/cgroup/memory/x/memory.limit_in_bytes": "4096\n",
		}, 4096},
		"bound elsewhere": {"4:memory:/docker/abcdef\n", bound, tree{"/sys/fs/cgroup/memory/memory.limit_in_bytes": "4096\n"}, 4096},
		// The host's mount with the path of a namespace of its own.
		"another namespace": {"4:memory:/../../x\n", at, tree{"/sys/fs/cgroup/memory/memory.limit_in_bytes": "4096\n"}, 4096},
		"out of sight": {"4:memory:/docker/abc\n", bound, tree{
			"/sys/fs/cgroup/memory/memory.limit_in_bytes": never, "/sys/fs/cgroup/memory/memory.stat": "cache 1\nhierarchical_memory_limit 4096\nhierarchical_memsw_limit 1\n",
		}, 4096},
		"white space":    {"4:memory:/a\n", `35 31 0:32 / /cg\040v1 rw - cgroup cgroup rw,memory` + "\n", tree{"/cg v1/a/memory.limit_in_bytes": "4096\n"}, 4096},
		"broken mounts":  {"4:memory:/a\n", "35 31\n - cgroup\n\n", tree{"/sys/fs/cgroup/memory/a/memory.limit_in_bytes": "4096\n"}, 4096},
		"broken numbers": {"4:memory:/a\n", at, tree{"/sys/fs/cgroup/memory/a/memory.limit_in_bytes": "-1\n"}, 0},
	} {
		if got := groupLimit(c.files.with(c.own, c.mounts).read); got != c.want {
			t.Errorf("%s: %d, want %d", name, got, c.want)
		}
	}
}
