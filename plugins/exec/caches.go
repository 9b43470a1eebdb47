package exec

import (
	"slices"
	"strings"

	"github.com/caisson-run/caisson/sdk/backend"
)

// caches are base names of what programs leave behind and nobody asked for: runs leave
// them out of what changed, and listings out of what there is. What somebody uploaded
// under such a name is somebody's work nevertheless: see labelWhole and unnoticed.
var caches = []string{
	"__pycache__", "*.pyc", ".cache", ".local", ".config", ".npm", "node_modules", ".ipynb_checkpoints", ".git",
}

// cache returns the part of caches that a name lies in.
func cache(name string) []string {
	var in []string
	for segment := range strings.SplitSeq(name, "/") {
		for _, c := range caches {
			if suffix, ok := strings.CutPrefix(c, "*"); c == segment || ok && strings.HasSuffix(segment, suffix) {
				in = append(in, c)
			}
		}
	}
	return in
}

// leftOut is what a listing of a session leaves out.
func leftOut(m backend.Metadata) []string {
	if listedWhole(m) {
		return nil
	}
	return caches
}

// listedWhole reports whether the session's caches are listed as well: it holds an upload
// that has files in them, or one that no run goes on in.
func listedWhole(m backend.Metadata) bool { return m.Labels[labelWhole] != "" || shared(m) }

// unnoticed is what a run with these inputs leaves out of what changed. An input that
// lies in a cache is not left out.
func unnoticed(in *inputs) []string {
	out := slices.Clone(caches)
	for _, x := range in.found {
		if x.shared {
			continue
		}
		for _, c := range cache(x.name) {
			out = slices.DeleteFunc(out, func(o string) bool { return o == c })
		}
	}
	return out
}
