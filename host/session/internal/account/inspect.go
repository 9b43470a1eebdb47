package account

import (
	"maps"
	"slices"
	"strings"

	"github.com/caisson-run/caisson/sdk/backend"
)

// Live returns the sandboxes there are, by id.
func (a *Account) Live() []backend.Sandbox {
	a.mu.Lock()
	defer a.mu.Unlock()
	var out []backend.Sandbox
	for id := range maps.Clone(a.boxes) {
		if b, err := a.live(id); err == nil {
			out = append(out, b.Sandbox)
		}
	}
	slices.SortFunc(out, func(x, y backend.Sandbox) int { return strings.Compare(x.ID, y.ID) })
	return out
}

// Made returns every sandbox ever made, in order.
func (a *Account) Made() []backend.Sandbox {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Clone(a.all)
}

// Deleted returns the ids of sandboxes that Delete ended, in order.
func (a *Account) Deleted() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Clone(a.deleted)
}

// Count is how often an operation was carried out; "woken" counts the Connects that
// woke a sandbox.
func (a *Account) Count(op string) int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.counts[op]
}

// Change does to a sandbox what nobody can ask the provider for. It does nothing
// when the sandbox is gone.
func (a *Account) Change(id string, f func(*backend.Sandbox)) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if b := a.boxes[id]; b != nil {
		f(&b.Sandbox)
	}
}

// Vanish ends a sandbox behind everybody's back.
func (a *Account) Vanish(id string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.boxes, id)
}

// Put adds a sandbox that nobody asked for.
func (a *Account) Put(sb backend.Sandbox) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.boxes[sb.ID] = &box{Sandbox: sb, files: make(map[string][]byte)}
}

// Holder returns the id of the sandbox that has a file at path, or "".
func (a *Account) Holder(path string) string {
	a.mu.Lock()
	defer a.mu.Unlock()
	for id, b := range a.boxes {
		if _, ok := b.files[path]; ok {
			return id
		}
	}
	return ""
}
