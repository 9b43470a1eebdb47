package host

import (
	"encoding/json"
	"slices"
	"testing"
)

func TestLooser(t *testing.T) {
	rules := json.RawMessage(`{"languages":["py"]}`)
	was := []PolicyConfig{
		{Plugin: "limits", Config: rules}, {Plugin: "guard"}, {Plugin: "guard", Config: rules, Mode: PolicyWarn}, {Plugin: "watch", Mode: PolicyObserve, FailOpen: true},
	}
	edit := func(f func(c []PolicyConfig) []PolicyConfig) []PolicyConfig { return f(slices.Clone(was)) }
	for name, c := range map[string]struct {
		is   []PolicyConfig
		want []string
	}{
		"the same":      {was, nil},
		"empty":         {nil, []string{"policies: the chain is empty, nothing judges requests any more"}},
		"one gone":      {was[1:], []string{"policies: limits is not asked any more"}},
		"asked less":    {slices.Delete(slices.Clone(was), 1, 2), []string{"policies: guard is asked 1 times instead of 2"}},
		"another order": {edit(func(c []PolicyConfig) []PolicyConfig { slices.Reverse(c[:2]); return c }), nil},
		"one more":      {append(slices.Clone(was), PolicyConfig{Plugin: "new"}), nil},
		"the default":   {[]PolicyConfig{{Plugin: "limits"}}, []string{"policies: limits has no config any more", "policies: guard is not asked any more", "policies: watch is not asked any more"}},
		"weaker": {edit(func(c []PolicyConfig) []PolicyConfig {
			c[0].Mode, c[1].Mode, c[2].Mode, c[2].FailOpen = PolicyWarn, PolicyObserve, PolicyObserve, true
			return c
		}), []string{
			"policies: limits has the mode warn instead of deny", "policies: guard has the mode observe instead of deny",
			"policies: guard has the mode observe instead of warn", "policies: guard lets requests pass that it fails to judge",
		}},
		"stronger": {edit(func(c []PolicyConfig) []PolicyConfig {
			c[2].Mode, c[3].Mode, c[3].FailOpen = PolicyDeny, "", false
			return c
		}), nil},
	} {
		t.Run(name, func(t *testing.T) {
			if got := looser(was, c.is); !slices.Equal(got, c.want) {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
	if got := looser(nil, was); got != nil {
		t.Errorf("a first chain: %q", got)
	}
}
