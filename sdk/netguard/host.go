package netguard

import (
	"fmt"
	"net/netip"
	"strings"
)

// parseHost reads the host of a URL or of an address to dial: an address, or a name
// in lower case without a final dot. What some resolver takes for an address and
// others for a name, such as 0x7f.1, is neither.
func parseHost(host string) (netip.Addr, string, error) {
	if host == "" {
		return netip.Addr{}, "", fmt.Errorf("the host is empty")
	}
	if strings.ContainsAny(host, ":[]") {
		return parse6(host)
	}
	for _, c := range []byte(host) {
		if c >= 0x80 {
			return netip.Addr{}, "", fmt.Errorf("host %q is not ASCII: write an international name as xn--", host)
		}
	}
	name := strings.ToLower(strings.TrimSuffix(host, "."))
	if len(name) > 253 {
		return netip.Addr{}, "", fmt.Errorf("the host is longer than 253 characters")
	}
	labels := strings.Split(name, ".")
	for _, l := range labels {
		if err := checkLabel(l); err != nil {
			return netip.Addr{}, "", fmt.Errorf("host %q: %w", host, err)
		}
	}
	if isNumber(labels[len(labels)-1]) {
		a, err := netip.ParseAddr(name) // four decimal numbers without leading zeros
		if err != nil {
			return netip.Addr{}, "", fmt.Errorf("host %q: write an IPv4 address as four decimal numbers", host)
		}
		return a, "", nil
	}
	return netip.Addr{}, name, nil
}

func parse6(host string) (netip.Addr, string, error) {
	if strings.HasPrefix(host, "[") && strings.HasSuffix(host, "]") {
		host = host[1 : len(host)-1]
	}
	a, err := netip.ParseAddr(host)
	if err != nil || !a.Is6() {
		return netip.Addr{}, "", fmt.Errorf("host %q is no IPv6 address", host)
	}
	if a.Zone() != "" {
		return netip.Addr{}, "", fmt.Errorf("host %q: an address with a zone is link-local", host)
	}
	return a, "", nil
}

func checkLabel(l string) error {
	if l == "" || len(l) > 63 {
		return fmt.Errorf("a label has between 1 and 63 characters")
	}
	for _, c := range []byte(l) {
		if (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '-' && c != '_' {
			return fmt.Errorf("%q is no character of a host name", c)
		}
	}
	return nil
}

// isNumber reports whether a last label makes resolvers read the host as an address:
// digits only, or 0x and hexadecimal digits.
func isNumber(l string) bool {
	digits, set := l, "0123456789"
	if strings.HasPrefix(l, "0x") {
		digits, set = l[2:], "0123456789abcdef"
	}
	return strings.Trim(digits, set) == ""
}

// clusterZone is where container clusters keep their names, unlike the rest of
// local, which anybody on the link answers for.
const clusterZone = ".cluster.local"

// localName says why a name means something of the machine or its link.
func localName(name string) string {
	under := func(zone string) bool { return name == zone || strings.HasSuffix(name, "."+zone) }
	switch {
	case under("local"):
		return "is resolved on the local link"
	case under("metadata.google.internal"), under("metadata.goog"):
		return "is a metadata service"
	}
	return ""
}

func isLocalhost(name string) bool {
	return name == "localhost" || strings.HasSuffix(name, ".localhost") ||
		name == "localhost.localdomain" || name == "ip6-localhost" || name == "ip6-loopback"
}

// matchHost reports whether a name or an address is one of the patterns: an exact
// name, or "*.zone" for every name below zone.
func matchHost(patterns []string, host string) bool {
	for _, p := range patterns {
		if zone, ok := strings.CutPrefix(p, "*"); ok {
			if strings.HasSuffix(host, zone) && len(host) > len(zone) {
				return true
			}
		} else if p == host {
			return true
		}
	}
	return false
}
