package host

import (
	"fmt"
	"slices"
)

// looser says, a sentence each, where a new chain of policies lets pass what the old
// one looked at. Operators may want that; nobody should do it unseen, by a key that got
// lost for instance.
func looser(was, is []PolicyConfig) (out []string) {
	if len(is) == 0 && len(was) > 0 {
		return []string{"policies: the chain is empty, nothing judges requests any more"}
	}
	for _, name := range plugins(was) {
		before, after := ofPlugin(was, name), ofPlugin(is, name)
		switch {
		case len(after) == 0:
			out = append(out, fmt.Sprintf("policies: %s is not asked any more", name))
			continue
		case len(after) < len(before):
			out = append(out, fmt.Sprintf("policies: %s is asked %d times instead of %d", name, len(after), len(before)))
			continue
		}
		for i, b := range before {
			a := after[i]
			if a.Mode.strength() < b.Mode.strength() {
				out = append(out, fmt.Sprintf("policies: %s has the mode %s instead of %s", name, a.Mode.orDeny(), b.Mode.orDeny()))
			}
			if len(a.Config) == 0 && len(b.Config) > 0 {
				out = append(out, fmt.Sprintf("policies: %s has no config any more", name))
			}
			if a.FailOpen && !b.FailOpen {
				out = append(out, fmt.Sprintf("policies: %s lets requests pass that it fails to judge", name))
			}
		}
	}
	return out
}

// plugins are the names in a chain, each once.
func plugins(chain []PolicyConfig) (out []string) {
	for _, p := range chain {
		if !slices.Contains(out, p.Plugin) {
			out = append(out, p.Plugin)
		}
	}
	return out
}

func ofPlugin(chain []PolicyConfig, name string) (out []PolicyConfig) {
	for _, p := range chain {
		if p.Plugin == name {
			out = append(out, p)
		}
	}
	return out
}

func (m PolicyMode) orDeny() PolicyMode {
	if m == "" {
		return PolicyDeny
	}
	return m
}

// strength orders the modes by what they keep from passing.
func (m PolicyMode) strength() int {
	return slices.Index([]PolicyMode{PolicyObserve, PolicyWarn, PolicyDeny}, m.orDeny())
}
