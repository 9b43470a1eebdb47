package netguard

import (
	"net/netip"
	"testing"
)

// TestClassify is the table of addresses, each with what it is.
func TestClassify(t *testing.T) {
	for _, c := range []struct {
		addr string
		want Class
	}{
		{"8.8.8.8", Public},
		{"1.1.1.1", Public},
		{"100.63.255.255", Public},
		{"100.128.0.0", Public},
		{"172.15.255.255", Public},
		{"172.32.0.0", Public},
		{"192.167.255.255", Public},
		{"10.0.0.1", Private},
		{"172.16.0.1", Private},
		{"172.31.255.255", Private},
		{"192.168.1.1", Private},
		{"100.64.0.1", Private},
		{"100.127.255.255", Private},
		{"198.18.0.1", Private},
		{"198.19.255.255", Private},
		{"127.0.0.1", Loopback},
		{"127.255.255.254", Loopback},
		{"0.0.0.0", Unspecified},
		{"0.1.2.3", Unspecified},
		{"224.0.0.1", Multicast},
		{"239.255.255.255", Multicast},
		{"255.255.255.255", Multicast},
		{"240.0.0.1", Reserved},
		{"192.0.2.1", Reserved},
		{"198.51.100.7", Reserved},
		{"203.0.113.7", Reserved},
		{"192.0.0.1", Reserved},
		{"192.88.99.1", Reserved},
		{"169.254.0.1", LinkLocal},
		{"169.254.170.2", LinkLocal}, // credentials of containers
		{"169.254.169.254", Metadata},
		{"100.100.100.200", Metadata},
		{"168.63.129.16", Metadata},
		{"192.0.0.192", Metadata},

		{"2606:4700::1111", Public},
		{"2a00:1450:4001::1", Public},
		{"::", Unspecified},
		{"::1", Loopback},
		{"fc00::1", Private},
		{"fd12:3456::1", Private},
		{"fec0::1", Private},
		{"fe80::1", LinkLocal},
		{"febf::1", LinkLocal},
		{"ff02::1", Multicast},
		{"ff0e::1", Multicast},
		{"fd00:ec2::254", Metadata},
		{"fd00:ec2::23", Metadata},
		{"fd20:ce::254", Metadata},
		{"fe80::a9fe:a9fe", Metadata},
		{"2001:db8::1", Reserved},
		{"3fff::1", Reserved},
		{"100::1", Reserved},
		{"5f00::1", Reserved},
		{"4000::1", Reserved}, // not allocated
		{"2001:2::1", Reserved},
		{"2001:10::1", Reserved},

		// IPv4 inside IPv6.
		{"::ffff:8.8.8.8", Public},
		{"::ffff:127.0.0.1", Loopback},
		{"::ffff:10.0.0.1", Private},
		{"::ffff:169.254.169.254", Metadata},
		{"::ffff:100.64.0.1", Private},
		{"::ffff:0:127.0.0.1", Reserved}, // translated; nothing routes it
		{"::ffff:0:169.254.169.254", Metadata},
		{"::127.0.0.1", Reserved}, // compatible
		{"::10.0.0.1", Reserved},
		{"::169.254.169.254", Metadata},
		{"::8.8.8.8", Reserved},
		{"2002:0808:0808::1", Public},
		{"2002:7f00:0001::1", Loopback},
		{"2002:0a00:0001::1", Private},
		{"2002:a9fe:a9fe::1", Metadata},
		{"2001:0:808:808:0:0:f7f7:f7f7", Public},   // Teredo, client 8.8.8.8
		{"2001:0:808:808:0:0:80ff:fffe", Loopback}, // client 127.0.0.1
		{"2001:0:808:808:0:0:5601:5601", Metadata}, // client 169.254.169.254
		{"2001:0:7f00:1:0:0:f7f7:f7f7", Loopback},  // server 127.0.0.1
		{"64:ff9b::8.8.8.8", Public},
		{"64:ff9b::127.0.0.1", Loopback},
		{"64:ff9b::a9fe:a9fe", Metadata},
		{"64:ff9b::10.1.2.3", Private},
		{"64:ff9b:1::8.8.8.8", Reserved}, // local, and nobody said which
		{"64:ff9b:1:a9fe:a9:fe00::", Reserved},
		{"2a00:1450::5efe:8.8.8.8", Public}, // ISATAP
		{"2a00:1450::5efe:10.0.0.1", Private},
		{"2a00:1450::200:5efe:127.0.0.1", Loopback},
		{"2a00:1450::5efe:169.254.169.254", Metadata},
		{"fe80::5efe:8.8.8.8", LinkLocal},
	} {
		if got := Classify(netip.MustParseAddr(c.addr)); got != c.want {
			t.Errorf("Classify(%s) = %s, want %s", c.addr, got, c.want)
		}
	}
	if got := Classify(netip.Addr{}); got != Reserved {
		t.Errorf("no address is %s", got)
	}
}

// TestNAT64 reads IPv4 addresses out of a network's own prefixes, with the examples
// of RFC 6052, section 2.4.
func TestNAT64(t *testing.T) {
	for _, c := range []struct {
		prefix, addr string
		want         Class
	}{
		{"2001:db8::/32", "2001:db8:c000:221::", Reserved}, // 192.0.2.33 is documentation
		{"2001:db8:100::/40", "2001:db8:1c0:2:21::", Reserved},
		{"2a00:122::/32", "2a00:122:a9fe:a9fe::", Metadata},
		{"2a00:122:100::/40", "2a00:122:1a9:fea9:fe::", Metadata},
		{"2a00:122:122::/48", "2a00:122:122:a9fe:a9:fe00::", Metadata},
		{"2a00:122:122:300::/56", "2a00:122:122:3a9:fe:a9fe::", Metadata},
		{"2a00:122:122:344::/64", "2a00:122:122:344:a9:fea9:fe00::", Metadata},
		{"2a00:122:122:344::/96", "2a00:122:122:344::a9fe:a9fe", Metadata},
		{"2a00:122:122:344::/96", "2a00:122:122:344::808:808", Public},
		{"64:ff9b:1::/96", "64:ff9b:1::8.8.8.8", Public},
		{"64:ff9b:1::/48", "64:ff9b:1:0808:0008:0800::", Public},
		{"64:ff9b:1::/48", "64:ff9b:1:7f00:0000:0100::", Loopback},
		{"64:ff9b:1::/96", "64:ff9b:1::127.0.0.1", Loopback},
	} {
		if got := classify(netip.MustParseAddr(c.addr), []netip.Prefix{netip.MustParsePrefix(c.prefix)}); got != c.want {
			t.Errorf("%s in %s is %s, want %s", c.addr, c.prefix, got, c.want)
		}
	}
}

// FuzzClassify holds an embedded address to what it would be alone.
func FuzzClassify(f *testing.F) {
	for _, a := range []string{"127.0.0.1", "169.254.169.254", "8.8.8.8", "100.100.100.200", "0.0.0.0", "224.0.0.1"} {
		b := netip.MustParseAddr(a).As4()
		f.Add(b[:], uint64(0))
	}
	guard, err := New(Policy{AllowPrivate: true})
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, v4 []byte, rest uint64) {
		if len(v4) != 4 {
			return
		}
		alone := netip.AddrFrom4([4]byte(v4))
		want := Classify(alone)
		put := func(head [12]byte) netip.Addr {
			return netip.AddrFrom16([16]byte(append(head[:], v4...)))
		}
		six := [16]byte{0x20, 0x02, v4[0], v4[1], v4[2], v4[3]}
		ter := [16]byte{0x20, 0x01, 0, 0, 8, 8, 8, 8, 0, 0, 0, 0, ^v4[0], ^v4[1], ^v4[2], ^v4[3]}
		for i := range 8 {
			six[8+i] = byte(rest >> (8 * i))
		}
		for name, a := range map[string]netip.Addr{
			"mapped":     put([12]byte{10: 0xff, 11: 0xff}),
			"translated": put([12]byte{8: 0xff, 9: 0xff}),
			"nat64":      put([12]byte{0x00, 0x64, 0xff, 0x9b}),
			"isatap":     put([12]byte{0x2a, 0x00, 0x14, 0x50, 10: 0x5e, 11: 0xfe}),
			"6to4":       netip.AddrFrom16(six),
			"teredo":     netip.AddrFrom16(ter),
		} {
			if got := Classify(a); got < want {
				t.Errorf("%s as %s %s is %s, alone %s", alone, name, a, got, want)
			}
			if want.never() && guard.CheckAddr(a) == nil {
				t.Errorf("%s as %s %s is admitted", alone, name, a)
			}
		}
	})
}
