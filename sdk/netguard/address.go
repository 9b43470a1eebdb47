package netguard

import (
	"encoding/binary"
	"net/netip"
)

// Class is what an address is for, from harmless to never.
type Class int

// The classes, in the order of strictness: an address of several is of the last.
const (
	// Public is global unicast.
	Public Class = iota
	// Private is RFC 1918, unique local and site-local addresses, shared address
	// space (RFC 6598), and networks for benchmarks (RFC 2544).
	Private
	// Loopback is the machine itself.
	Loopback
	// Reserved is documentation, future use, protocol assignments, and whatever is
	// not allocated.
	Reserved
	// Multicast includes broadcast.
	Multicast
	// Unspecified is 0.0.0.0/8 and ::, which many systems take for themselves.
	Unspecified
	// LinkLocal is 169.254.0.0/16 and fe80::/10.
	LinkLocal
	// Metadata is where clouds hand out the credentials of a machine.
	Metadata
)

func (c Class) String() string {
	switch c {
	case Public:
		return "public"
	case Private:
		return "private"
	case Loopback:
		return "loopback"
	case Reserved:
		return "reserved"
	case Multicast:
		return "multicast"
	case Unspecified:
		return "unspecified"
	case LinkLocal:
		return "link-local"
	case Metadata:
		return "metadata"
	}
	return "unknown"
}

// never reports whether no policy admits the class.
func (c Class) never() bool { return c > Loopback }

// row is one network of the tables below.
type row struct {
	prefix netip.Prefix
	class  Class
}

func rows(class Class, prefixes ...string) []row {
	list := make([]row, len(prefixes))
	for i, p := range prefixes {
		list[i] = row{netip.MustParsePrefix(p), class}
	}
	return list
}

func table(parts ...[]row) []row {
	var list []row
	for _, p := range parts {
		list = append(list, p...)
	}
	return list
}

// The IANA registries of special-purpose addresses, and the clouds' own addresses. Of
// several rows that match, the strictest counts.
var special4 = table(
	rows(Metadata,
		"169.254.169.254/32", // most clouds
		"100.100.100.200/32", // Alibaba, inside shared address space
		"168.63.129.16/32",   // Azure, a public address
		"192.0.0.192/32",     // Oracle
	),
	rows(LinkLocal, "169.254.0.0/16"),
	rows(Unspecified, "0.0.0.0/8"),
	rows(Multicast, "224.0.0.0/4", "255.255.255.255/32"),
	rows(Reserved, "192.0.0.0/24", "192.0.2.0/24", "192.88.99.0/24", "198.51.100.0/24", "203.0.113.0/24", "240.0.0.0/4"),
	rows(Loopback, "127.0.0.0/8"),
	rows(Private, "10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "100.64.0.0/10", "198.18.0.0/15"),
)

// Of IPv6 only what is listed as an exception to Reserved, and 2000::/3, is in use.
var special6 = table(
	rows(Metadata,
		"fd00:ec2::/32",       // Amazon: metadata, credentials of pods, time, names
		"fd20:ce::254/128",    // Google
		"fe80::a9fe:a9fe/128", // 169.254.169.254 as a link-local interface id
	),
	rows(LinkLocal, "fe80::/10"),
	rows(Unspecified, "::/128"),
	rows(Multicast, "ff00::/8"),
	rows(Reserved, "2001::/23", "2001:db8::/32", "3fff::/20"),
	rows(Loopback, "::1/128"),
	rows(Private, "fc00::/7", "fec0::/10"),
)

var (
	global     = netip.MustParsePrefix("2000::/3")
	compatible = netip.MustParsePrefix("::/96")
	translated = netip.MustParsePrefix("::ffff:0:0:0/96")
	sixToFour  = netip.MustParsePrefix("2002::/16")
	teredo     = netip.MustParsePrefix("2001::/32")
	wellKnown  = netip.MustParsePrefix("64:ff9b::/96")
)

// Classify says what an address is for. IPv4 inside IPv6 counts (mapped, translated,
// compatible, 6to4, Teredo, NAT64 with its well-known prefix, ISATAP); of all that an
// address holds, the strictest class is returned. A zone is ignored. An address of
// the prefix for local NAT64, 64:ff9b:1::/48, is Reserved: only [Policy.NAT64] knows
// where in it the IPv4 address is.
func Classify(a netip.Addr) Class { return classify(a, nil) }

func classify(a netip.Addr, nat64 []netip.Prefix) Class {
	a = a.WithZone("").Unmap()
	switch {
	case !a.IsValid():
		return Reserved
	case a.Is4():
		return strictest(a, special4, Public)
	}
	for _, p := range nat64 {
		if p.Contains(a) {
			return classify4(embedded(a, p.Bits()))
		}
	}
	b := a.As16()
	last := netip.AddrFrom4([4]byte(b[12:]))
	switch {
	case wellKnown.Contains(a):
		return classify4(last)
	case sixToFour.Contains(a):
		return classify4(netip.AddrFrom4([4]byte(b[2:6])))
	case teredo.Contains(a):
		client := binary.BigEndian.Uint32(b[12:]) ^ 0xffffffff // written inverted
		return max(classify4(netip.AddrFrom4([4]byte(b[4:8]))),
			classify4(netip.AddrFrom4([4]byte(binary.BigEndian.AppendUint32(nil, client)))))
	}
	fallback := Reserved
	if global.Contains(a) {
		fallback = Public
	}
	class := strictest(a, special6, fallback)
	if class == Loopback || class == Unspecified {
		return class // ::1 and :: are no compatible addresses
	}
	if compatible.Contains(a) || translated.Contains(a) || isISATAP(b) {
		class = max(class, classify4(last))
	}
	return class
}

func classify4(a netip.Addr) Class { return strictest(a, special4, Public) }

// strictest returns the last class of those whose network holds a.
func strictest(a netip.Addr, table []row, fallback Class) Class {
	class, found := fallback, false
	for _, r := range table {
		if r.prefix.Contains(a) && (!found || r.class > class) {
			class, found = r.class, true
		}
	}
	return class
}

// isISATAP recognises interface ids of RFC 5214 under any prefix.
func isISATAP(b [16]byte) bool {
	id := binary.BigEndian.Uint32(b[8:12])
	return id == 0x00005efe || id == 0x02005efe
}

// embedded takes the IPv4 address out of a NAT64 address, whose prefix has one of the
// lengths of RFC 6052 (section 2.2); byte 8 is never part of it.
func embedded(a netip.Addr, bits int) netip.Addr {
	b := a.As16()
	var v4 [4]byte
	at := bits / 8
	for i := range v4 {
		if at == 8 && bits != 96 {
			at++
		}
		v4[i] = b[at]
		at++
	}
	return netip.AddrFrom4(v4)
}
