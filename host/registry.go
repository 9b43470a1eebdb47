package host

import (
	"fmt"
	"path/filepath"
	"slices"
	"sync"

	"github.com/caisson-run/caisson/manifest"
)

// registry is what was found, by name. A swap replaces what a name stands for. It
// is safe for concurrent use.
type registry struct {
	mu     sync.Mutex
	order  []found
	byName map[string]int // usable ones, into order
	// installed is what the plugin directories held, by name, when it was last taken
	// from there: what serves may be from elsewhere since.
	installed map[string]PluginVersion
	// sentBack is what was installed, served and was sent back.
	sentBack map[string]PluginVersion
}

func newRegistry(dirs []string, trust Trust) (*registry, error) {
	all, err := discover(dirs, trust)
	if err != nil {
		return nil, err
	}
	r := &registry{order: all, byName: make(map[string]int), installed: make(map[string]PluginVersion), sentBack: make(map[string]PluginVersion)}
	for i, f := range all {
		if f.m != nil {
			r.byName[f.status.Name] = i
			r.installed[f.status.Name] = versionOf(f)
		}
	}
	return r, nil
}

// all is everything that was found, in order of directories and names.
func (r *registry) all() []found {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.order)
}

// replace makes f what its name stands for.
func (r *registry) replace(f found) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if i, ok := r.byName[f.status.Name]; ok {
		r.order[i] = f
		return
	}
	r.byName[f.status.Name] = len(r.order)
	r.order = append(r.order, f)
}

// take is replace with what is installed.
func (r *registry) take(f found) {
	r.replace(f)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.installed[f.status.Name] = versionOf(f)
}

// sendBack notes that f, which is installed, failed while it was watched.
func (r *registry) sendBack(f found) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.sentBack[f.status.Name] = versionOf(f)
}

// wasSentBack reports whether that happened to f when it was last tried.
func (r *registry) wasSentBack(f found) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	v, ok := r.sentBack[f.status.Name]
	return ok && v == versionOf(f)
}

// merge takes in what was found later. It returns the usable plugins that are of
// another version than what their name stands for, and leaves those to the caller, who
// takes them; and those that cannot be used any more. A version that was swapped in from
// elsewhere stays while what is installed is what it was.
func (r *registry) merge(later *registry) (changed, broken []found) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, f := range later.order {
		i, known := r.byName[f.status.Name]
		switch {
		case known && f.m != nil:
			now, is := r.order[i], versionOf(f)
			switch {
			case is == versionOf(now):
				r.installed[f.status.Name] = is
			case now.status.Dir == f.status.Dir, r.installed[f.status.Name] != is:
				changed = append(changed, f)
			}
		case known && f.status.State == PluginSkipped:
		case known: // what serves is better than what is broken now
			broken = append(broken, f)
		default:
			r.order = slices.DeleteFunc(r.order, func(o found) bool { return o.status.Dir == f.status.Dir })
			r.order = append(r.order, f)
		}
	}
	r.byName = make(map[string]int)
	for i, f := range r.order {
		if _, dup := r.byName[f.status.Name]; f.m != nil && !dup {
			r.byName[f.status.Name] = i
			if _, known := r.installed[f.status.Name]; !known {
				r.installed[f.status.Name] = versionOf(f)
			}
		}
	}
	return changed, broken
}

// plugin returns a usable plugin of a kind, or an error that says what to do.
func (r *registry) plugin(kind manifest.Kind, name string) (found, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if i, ok := r.byName[name]; ok {
		f := r.order[i]
		if f.m.Kind != kind {
			return found{}, fmt.Errorf("plugin %q is a %s plugin, not a %s plugin", name, f.m.Kind, kind)
		}
		return f, nil
	}
	for _, f := range r.order {
		if f.status.Name == name || filepath.Base(f.status.Dir) == name {
			return found{}, fmt.Errorf("plugin %q: %s", name, f.status.Cause)
		}
	}
	names := make([]string, 0, len(r.byName))
	for n, i := range r.byName {
		if r.order[i].m.Kind == kind {
			names = append(names, n)
		}
	}
	slices.Sort(names)
	return found{}, fmt.Errorf("no %s plugin %q is installed (installed: %v)", kind, name, names)
}
