package dialect

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"

	"github.com/caisson-run/caisson/plugins/internal/remote"
	"github.com/caisson-run/caisson/sdk/backend"
)

// The provider's bounds on rules.
const (
	maxRuleDomains = 10
	maxRuleHeaders = 20
	maxHeaderName  = 64
	maxHeaderValue = 2048
	maxRuleDomain  = 128
)

// rule changes requests to a host on their way out: it sets headers, such as
// credentials that programs do not see.
type rule struct {
	Transform struct {
		Headers map[string]string `json:"headers"`
	} `json:"transform"`
}

// checkRules reads rules by host. Values are secrets, so that errors name places only.
func checkRules(raw []byte, egress remote.Egress) (json.RawMessage, error) {
	invalid := func(format string, args ...any) error {
		return backend.Errorf(backend.KindInvalidRequest, "Create", "network.rules: "+format, args...)
	}
	d := json.NewDecoder(bytes.NewReader(raw))
	d.DisallowUnknownFields()
	var rules map[string][]rule
	if d.Decode(&rules) != nil {
		return nil, invalid(`must be {"HOST": [{"transform": {"headers": {"NAME": "VALUE"}}}]}`)
	}
	if len(rules) > maxRuleDomains {
		return nil, invalid("more than %d hosts", maxRuleDomains)
	}
	for host, list := range rules {
		switch {
		case len(host) > maxRuleDomain:
			return nil, invalid("a host is longer than %d characters", maxRuleDomain)
		case len(list) != 1:
			return nil, invalid("%s: exactly one rule is allowed", host)
		case len(list[0].Transform.Headers) > maxRuleHeaders:
			return nil, invalid("%s: more than %d headers", host, maxRuleHeaders)
		case !egress.Open && !allowed(egress.Allow, host):
			return nil, invalid("%s: a rule does not allow its host; list it in network.allow too", host)
		}
		for name, value := range list[0].Transform.Headers {
			if name == "" || len(name) > maxHeaderName || len(value) > maxHeaderValue {
				return nil, invalid("%s: a header's name has 1 to %d characters and its value at most %d", host, maxHeaderName, maxHeaderValue)
			}
		}
	}
	return raw, nil
}

func allowed(list []string, host string) bool {
	return slices.ContainsFunc(list, func(a string) bool {
		zone, ok := strings.CutPrefix(a, "*")
		return a == host || ok && strings.HasSuffix(host, zone)
	})
}
