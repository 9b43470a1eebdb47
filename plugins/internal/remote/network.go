package remote

import (
	"encoding/json"
	"net/netip"
	"regexp"
	"slices"

	"github.com/caisson-run/caisson/sdk/backend"
)

// Egress is what a sandbox may reach, with every choice made.
type Egress struct {
	// Open allows what Deny does not list; closed, only Allow is.
	Open bool
	// Allow holds addresses, networks, host names and *.zones; Deny addresses and
	// networks. Allow wins.
	Allow, Deny []string
	// Public lets inbound traffic in without a credential.
	Public bool
}

// everything is how providers spell "all traffic". Host names on an allow list have
// an effect only beside it.
const everything = "0.0.0.0/0"

var hostForm = regexp.MustCompile(`^(\*\.)?([a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?\.)+[a-z0-9-]{2,63}$`)

// Effective fills in a network with the config's default and refuses what providers
// would not enforce. Its errors are *backend.Error values.
func (s *Settings) Effective(n backend.Network) (Egress, error) {
	invalid := func(format string, args ...any) error {
		return backend.Errorf(backend.KindInvalidRequest, "Create", format, args...)
	}
	mode := n.Mode
	if mode == backend.NetworkDefault {
		mode = backend.NetworkMode(s.Network)
	}
	e := Egress{Open: mode == backend.NetworkOpen, Allow: slices.Clone(n.Allow), Deny: slices.Clone(n.Deny), Public: n.PublicPorts}
	if mode != backend.NetworkOpen && mode != backend.NetworkClosed {
		return e, invalid("network.mode: %q is none of closed and open", mode)
	}
	for i, a := range e.Allow {
		if !isAddress(a) && !hostForm.MatchString(a) {
			return e, invalid("network.allow[%d]: must be an address, a network, a host name or *.zone", i)
		}
		if e.Open && !isAddress(a) {
			return e, invalid("network.allow[%d]: a host name has an effect only in a closed network", i)
		}
	}
	for i, d := range e.Deny {
		if !isAddress(d) {
			return e, backend.Errorf(backend.KindUnsupported, "Create", "network.deny[%d]: must be an address or a network: the provider cannot deny host names", i)
		}
	}
	if !e.Open && !slices.Contains(e.Deny, everything) {
		e.Deny = append([]string{everything}, e.Deny...)
	}
	return e, nil
}

func isAddress(s string) bool {
	if _, err := netip.ParseAddr(s); err == nil {
		return true
	}
	_, err := netip.ParsePrefix(s)
	return err == nil
}

// NetworkBody is how providers are told about a sandbox's network; rules are their own.
type NetworkBody struct {
	AllowPublicTraffic bool            `json:"allowPublicTraffic"`
	AllowOut           []string        `json:"allowOut,omitempty"`
	DenyOut            []string        `json:"denyOut,omitempty"`
	Rules              json.RawMessage `json:"rules,omitempty"`
}

// Body says it to a provider.
func (e Egress) Body() NetworkBody {
	return NetworkBody{AllowPublicTraffic: e.Public, AllowOut: e.Allow, DenyOut: e.Deny}
}
