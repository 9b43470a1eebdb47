package machine

import (
	"path"
	"slices"
	"strconv"
	"strings"
)

// groupLimit is the least limit of memory of the process's control groups and those above
// them, of version 2 and version 1 (cgroups(7)), which may be there both; 0 without any.
func groupLimit(read func(name string) ([]byte, error)) (least int64) {
	own, err := read("/proc/self/cgroup")
	if err != nil {
		return 0
	}
	mounts, _ := read("/proc/self/mountinfo") // without it they are where they usually are
	note := func(text string) {
		n, err := strconv.ParseInt(strings.TrimSpace(text), 10, 64) // or "max"
		if err == nil && n > 0 && n < unlimited && (least == 0 || n < least) {
			least = n
		}
	}
	group2, group1, has1 := ownGroups(string(own))
	for _, m := range hierarchies(string(mounts)) {
		group, file := group2, "memory.max"
		if !m.v2 {
			group, file = group1, "memory.limit_in_bytes"
			if !has1 {
				continue
			}
		}
		for at := m.below(group); ; at = path.Dir(at) {
			dir := path.Join(m.point, at)
			if b, err := read(path.Join(dir, file)); err == nil {
				note(string(b))
			}
			if b, err := read(path.Join(dir, "memory.stat")); err == nil && !m.v2 {
				// It knows groups above that a container does not see.
				for line := range strings.Lines(string(b)) {
					if n, ok := strings.CutPrefix(line, "hierarchical_memory_limit "); ok {
						note(n)
					}
				}
			}
			if at == "/" {
				break
			}
		}
	}
	return least
}

// unlimited is more than any limit: version 1 says the largest number of pages.
const unlimited = 1 << 62

// ownGroups are the process's group of version 2 and that which version 1 has for memory.
func ownGroups(own string) (v2, v1 string, has1 bool) {
	v2, v1 = "/", "/"
	for line := range strings.Lines(own) {
		_, rest, _ := strings.Cut(strings.TrimSpace(line), ":")
		controllers, p, ok := strings.Cut(rest, ":")
		switch {
		case !ok:
		case controllers == "":
			v2 = path.Clean("/" + p)
		case slices.Contains(strings.Split(controllers, ","), "memory"):
			v1, has1 = path.Clean("/"+p), true
		}
	}
	return v2, v1, has1
}

// hierarchy is a mount of control groups: root is the group that is found at point.
type hierarchy struct {
	root, point string
	v2          bool
}

// below is where a group is beneath the mount. One that is not there, since the mount is of
// another namespace, is taken for the mount's root.
func (h hierarchy) below(group string) string {
	if h.root == "/" {
		return group
	}
	rest, ok := strings.CutPrefix(group, h.root)
	if !ok || rest != "" && rest[0] != '/' {
		return "/"
	}
	return path.Clean("/" + rest)
}

// hierarchies finds the mounts that have limits of memory in /proc/self/mountinfo
// (proc(5)).
func hierarchies(mounts string) (out []hierarchy) {
	for line := range strings.Lines(mounts) {
		before, after, ok := strings.Cut(strings.TrimSpace(line), " - ")
		place, kind := strings.Fields(before), strings.Fields(after)
		if !ok || len(place) < 5 || len(kind) < 1 {
			continue
		}
		h := hierarchy{root: path.Clean("/" + plain(place[3])), point: plain(place[4]), v2: kind[0] == "cgroup2"}
		if h.v2 || kind[0] == "cgroup" && len(kind) > 2 && slices.Contains(strings.Split(kind[2], ","), "memory") {
			out = append(out, h)
		}
	}
	if len(out) == 0 {
		out = []hierarchy{{"/", "/sys/fs/cgroup", true}, {"/", "/sys/fs/cgroup/memory", false}}
	}
	return out
}

// plain undoes the escapes of mountinfo.
func plain(s string) string {
	return strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`).Replace(s)
}
