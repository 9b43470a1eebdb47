package netguard

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// ErrBlocked is what every refusal wraps, and no failure to connect does.
var ErrBlocked = errors.New("refused by the outbound policy")

// BlockedError is a refusal. Its text is for whoever configured the address; it
// names the host and the address, so do not pass it to others.
type BlockedError struct {
	// Host is what was asked for.
	Host string
	// Addr is the address that decided; invalid when the host alone did.
	Addr netip.Addr
	// Class is that of Addr.
	Class Class
	// Reason says what is wrong, and what to do where something can be done.
	Reason string
}

func (e *BlockedError) Error() string { return ErrBlocked.Error() + ": " + e.Reason }

// Is makes errors.Is(err, ErrBlocked) true.
func (e *BlockedError) Is(target error) bool { return target == ErrBlocked }

// Resolver finds the addresses of a name. *net.Resolver is one.
type Resolver interface {
	LookupNetIP(ctx context.Context, network, host string) ([]netip.Addr, error)
}

// Policy says where connections may go. The zero value admits public addresses on
// every port.
type Policy struct {
	// AllowPrivate admits private, shared and loopback addresses, the name localhost,
	// and of names below local those of clusters (cluster.local). It admits nothing link-local, no metadata service, no multicast and
	// nothing unspecified or reserved.
	AllowPrivate bool
	// Networks admits private and loopback addresses of these networks only, for
	// whoever knows where the services are.
	Networks []netip.Prefix
	// Deny refuses these networks, whatever else is admitted.
	Deny []netip.Prefix
	// Hosts, when not empty, are the only ones: exact names or addresses, or
	// "*.zone" for every name below it. Others are refused before they are resolved,
	// since the question itself tells something to whoever answers it.
	Hosts []string
	// Ports, when not empty, are the only ones.
	Ports []uint16
	// RequireTLS refuses http URLs. Connections are not looked into.
	RequireTLS bool
	// NAT64 are the prefixes of this network's own translators, of a length of RFC
	// 6052 (32, 40, 48, 56, 64 or 96): addresses in them count as the IPv4 address
	// that they hold. The well-known prefix needs no entry.
	NAT64 []netip.Prefix
	// Resolver defaults to that of the system.
	Resolver Resolver
}

// Guard applies a policy. It is immutable and safe for concurrent use.
type Guard struct {
	p Policy
}

// New checks a policy.
func New(p Policy) (*Guard, error) {
	for _, n := range p.NAT64 {
		if !n.IsValid() || !n.Addr().Is6() || !slices.Contains([]int{32, 40, 48, 56, 64, 96}, n.Bits()) {
			return nil, fmt.Errorf("netguard: nat64 prefix %s: its length is none of 32, 40, 48, 56, 64 and 96", n)
		}
	}
	for _, n := range slices.Concat(p.Networks, p.Deny) {
		if !n.IsValid() {
			return nil, fmt.Errorf("netguard: a network is not valid")
		}
	}
	hosts := make([]string, len(p.Hosts))
	for i, h := range p.Hosts {
		zone := strings.TrimPrefix(h, "*.")
		addr, name, err := parseHost(zone)
		if err == nil && addr.IsValid() && zone != h {
			err = fmt.Errorf("host %q: an address has nothing below it", h)
		}
		if err != nil {
			return nil, fmt.Errorf("netguard: hosts[%d]: %w", i, err)
		}
		if hosts[i] = name; addr.IsValid() {
			hosts[i] = addr.Unmap().String()
		}
		if zone != h {
			hosts[i] = "*." + hosts[i]
		}
	}
	p.Hosts = hosts
	p.Ports, p.Networks, p.Deny, p.NAT64 = slices.Clone(p.Ports), slices.Clone(p.Networks), slices.Clone(p.Deny), slices.Clone(p.NAT64)
	if p.Resolver == nil {
		p.Resolver = net.DefaultResolver
	}
	return &Guard{p: p}, nil
}

// CheckAddr decides about one address. It returns nil or a *BlockedError.
func (g *Guard) CheckAddr(a netip.Addr) error { return g.checkAddr(a.String(), a) }

func (g *Guard) checkAddr(host string, a netip.Addr) error {
	if a.Zone() != "" {
		return &BlockedError{Host: host, Addr: a, Class: LinkLocal, Reason: fmt.Sprintf("address %s has a zone and is link-local", a)}
	}
	class := classify(a, g.p.NAT64)
	blocked := func(format string, args ...any) error {
		text := fmt.Sprintf("%s is %s", a, class)
		if host != a.String() {
			text = fmt.Sprintf("%s resolves to %s, which is %s", host, a, class)
		}
		return &BlockedError{Host: host, Addr: a, Class: class, Reason: text + fmt.Sprintf(format, args...)}
	}
	plain := a.Unmap()
	in := func(list []netip.Prefix) bool {
		return slices.ContainsFunc(list, func(n netip.Prefix) bool { return n.Contains(plain) })
	}
	switch {
	case class.never():
		return blocked(" and never admitted")
	case in(g.p.Deny):
		return blocked(" and in a denied network")
	case class != Public && !g.p.AllowPrivate && !in(g.p.Networks):
		return blocked(": private addresses have to be allowed")
	}
	return nil
}

// checkHost decides about a host without resolving it. It returns its address when it
// is one, otherwise its name in lower case.
func (g *Guard) checkHost(host string) (netip.Addr, string, error) {
	block := func(format string, args ...any) (netip.Addr, string, error) {
		return netip.Addr{}, "", &BlockedError{Host: host, Reason: fmt.Sprintf(format, args...)}
	}
	a, name, err := parseHost(host)
	if err != nil {
		return block("%v", err)
	}
	known := name
	if a.IsValid() {
		known = a.Unmap().String()
	}
	if len(g.p.Hosts) > 0 && !matchHost(g.p.Hosts, known) {
		return block("host %q is not on the list of hosts", host)
	}
	if a.IsValid() {
		return a, "", g.checkAddr(a.String(), a)
	}
	if why := localName(name); why != "" && !(g.p.AllowPrivate && strings.HasSuffix(name, clusterZone)) {
		return block("host %q %s", host, why)
	}
	if isLocalhost(name) && !g.p.AllowPrivate && len(g.p.Networks) == 0 {
		return block("host %q is this machine: private addresses have to be allowed", host)
	}
	return netip.Addr{}, name, nil
}

func (g *Guard) checkPort(host, port string) error {
	n, err := strconv.ParseUint(port, 10, 16)
	if err != nil || n == 0 || port[0] == '+' {
		return &BlockedError{Host: host, Reason: fmt.Sprintf("port %q is no number between 1 and 65535", port)}
	}
	if len(g.p.Ports) > 0 && !slices.Contains(g.p.Ports, uint16(n)) {
		return &BlockedError{Host: host, Reason: fmt.Sprintf("port %d is not on the list of ports", n)}
	}
	return nil
}

// resolve returns the addresses of a host that passed, or a refusal when one of them
// does not: an answer with one good and one bad address is an attempt.
func (g *Guard) resolve(ctx context.Context, network, host string) ([]netip.Addr, error) {
	a, name, err := g.checkHost(host)
	if err != nil {
		return nil, err
	}
	if a.IsValid() {
		return []netip.Addr{a.Unmap()}, nil
	}
	family := "ip" + strings.TrimPrefix(network, "tcp")
	asked := name
	if !g.p.AllowPrivate {
		asked += "." // completed by search domains of this machine it would be a private name
	}
	addrs, err := g.p.Resolver.LookupNetIP(ctx, family, asked)
	if err != nil {
		return nil, fmt.Errorf("resolve %q: %w", host, err)
	}
	if len(addrs) == 0 {
		return nil, fmt.Errorf("resolve %q: no address", host)
	}
	for i, a := range addrs {
		if err := g.checkAddr(host, a); err != nil {
			return nil, err
		}
		addrs[i] = a.Unmap()
	}
	return addrs, nil
}

// CheckURL decides about a URL without resolving its host. It returns the URL parsed.
// Userinfo is refused: credentials do not belong into addresses.
func (g *Guard) CheckURL(raw string) (*url.URL, error) {
	block := func(format string, args ...any) (*url.URL, error) {
		return nil, &BlockedError{Reason: fmt.Sprintf(format, args...)}
	}
	if i := strings.IndexFunc(raw, func(r rune) bool { return r <= ' ' || r == 0x7f || r == '\\' }); i >= 0 {
		return block("the url holds a space, a control character or a backslash at %d", i)
	}
	u, err := url.Parse(raw)
	if err != nil {
		// The error of url.Parse quotes the whole text, userinfo included.
		return block("the url is malformed")
	}
	switch {
	case u.Scheme != "http" && u.Scheme != "https":
		return block("scheme %q is neither http nor https", u.Scheme)
	case u.Scheme == "http" && g.p.RequireTLS:
		return block("http is not allowed: use https")
	case u.Opaque != "" || u.Host == "":
		return block("the url has no host")
	case u.User != nil:
		return block("the url holds a user or a password")
	}
	if _, _, err := g.checkHost(u.Hostname()); err != nil {
		return nil, err
	}
	port := u.Port()
	if port == "" {
		if strings.HasSuffix(u.Host, ":") {
			return block("the port is empty")
		}
		port = map[string]string{"http": "80", "https": "443"}[u.Scheme]
	}
	if err := g.checkPort(u.Hostname(), port); err != nil {
		return nil, err
	}
	return u, nil
}

// Validate is CheckURL, and resolves the host besides: every address has to pass. It
// is for the moment when an address is saved. A failure to resolve is an error that
// does not wrap ErrBlocked.
func (g *Guard) Validate(ctx context.Context, raw string) (*url.URL, error) {
	u, err := g.CheckURL(raw)
	if err != nil {
		return nil, err
	}
	if _, err := g.resolve(ctx, "tcp", u.Hostname()); err != nil {
		return nil, err
	}
	return u, nil
}
