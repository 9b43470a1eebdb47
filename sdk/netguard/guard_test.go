package netguard

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// names answers like a DNS server would, and counts what it is asked.
type names struct {
	answers map[string][][]string // each question takes the next answer; the last stays
	asked   []string
}

func (n *names) LookupNetIP(_ context.Context, _, host string) ([]netip.Addr, error) {
	n.asked = append(n.asked, host)
	host = strings.TrimSuffix(host, ".")
	left := n.answers[host]
	if len(left) == 0 {
		return nil, fmt.Errorf("no such host %q", host)
	}
	if len(left) > 1 {
		n.answers[host] = left[1:]
	}
	var list []netip.Addr
	for _, a := range left[0] {
		list = append(list, netip.MustParseAddr(a))
	}
	return list, nil
}

func guard(t testing.TB, p Policy) *Guard {
	t.Helper()
	g, err := New(p)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// verdict of a policy.
const (
	pass       = "pass"
	refuse     = "refuse"
	unresolved = "unresolved"
)

// TestValidate is the table of URLs: what the default policy says, and what one that
// admits private addresses says.
func TestValidate(t *testing.T) {
	dns := &names{answers: map[string][][]string{
		"api.example.com":          {{"93.184.215.14", "2606:4700::1111"}},
		"private.example.com":      {{"10.0.0.7"}},
		"mixed.example.com":        {{"93.184.215.14", "127.0.0.1"}},
		"mixed-linklocal.test":     {{"93.184.215.14", "169.254.169.254"}},
		"mapped.example.com":       {{"::ffff:169.254.169.254"}},
		"nat64.example.com":        {{"64:ff9b::a9fe:a9fe"}},
		"imds.example.com":         {{"169.254.169.254"}},
		"zero.example.com":         {{"0.0.0.0"}},
		"gateway":                  {{"192.168.0.9"}},
		"api.ns.svc.cluster.local": {{"10.96.0.10"}},
		"localhost":                {{"127.0.0.1", "::1"}},
		"0x7f.example.com":         {{"93.184.215.14"}},
		"empty.example.com":        {{}},
	}}
	strict := guard(t, Policy{Resolver: dns})
	private := guard(t, Policy{Resolver: dns, AllowPrivate: true})
	for _, c := range []struct{ url, strict, private string }{
		{"https://api.example.com", pass, pass},
		{"https://API.Example.com.:8443/v1?x=1", pass, pass},
		{"http://api.example.com", pass, pass},
		{"https://93.184.215.14", pass, pass},
		{"https://[2606:4700::1111]:443", pass, pass},
		{"https://0x7f.example.com", pass, pass}, // only a last label makes a number
		{"https://private.example.com", refuse, pass},
		{"https://gateway", refuse, pass},
		{"https://10.0.0.7", refuse, pass},
		{"https://100.64.0.1", refuse, pass},
		{"https://127.0.0.1:3000", refuse, pass},
		{"http://[::1]:3000", refuse, pass},
		{"http://localhost:3000", refuse, pass},
		{"http://LOCALHOST.:3000", refuse, pass},
		{"https://[::ffff:10.0.0.1]", refuse, pass},
		{"https://api.ns.svc.cluster.local", refuse, pass},

		{"https://mixed.example.com", refuse, pass},
		{"https://mixed-linklocal.test", refuse, refuse},
		{"https://mapped.example.com", refuse, refuse},
		{"https://nat64.example.com", refuse, refuse},
		{"https://imds.example.com", refuse, refuse},
		{"https://zero.example.com", refuse, refuse},
		{"https://169.254.169.254/latest/meta-data", refuse, refuse},
		{"https://[fd00:ec2::254]", refuse, refuse},
		{"https://100.100.100.200", refuse, refuse},
		{"https://0.0.0.0", refuse, refuse},
		{"https://[::]", refuse, refuse},
		{"https://224.0.0.1", refuse, refuse},
		{"https://255.255.255.255", refuse, refuse},
		{"https://metadata.google.internal", refuse, refuse},
		{"https://printer.local", refuse, refuse},
		{"https://[fe80::1%25eth0]", refuse, refuse},
		{"https://[fd12::1%25eth0]", refuse, refuse},

		// Spellings that resolvers read as addresses.
		{"https://2130706433", refuse, refuse},
		{"https://0x7f000001", refuse, refuse},
		{"https://017700000001", refuse, refuse},
		{"https://127.1", refuse, refuse},
		{"https://127.0.1", refuse, refuse},
		{"https://0x7f.1", refuse, refuse},
		{"https://0177.0.0.1", refuse, refuse},
		{"https://0X7F.0.0.1", refuse, refuse},
		{"https://127.0.0.0x1", refuse, refuse},
		{"https://127.0.0.01", refuse, refuse},
		{"https://192.168.257", refuse, refuse},
		{"https://256.1.1.1", refuse, refuse},
		{"https://1.2.3.4.5", refuse, refuse},
		{"https://0x", refuse, refuse},
		{"https://169.254.169.254.", refuse, refuse},
		{"https://2852039166", refuse, refuse},
		{"https://①②⑦.⓪.⓪.①", refuse, refuse},
		{"https://127。0。0。1", refuse, refuse},
		{"https://１２７.0.0.1", refuse, refuse},
		{"https://%31%32%37.0.0.1", refuse, refuse},
		{"https://bücher.example", refuse, refuse},

		// Not an address of a service at all.
		{"ftp://api.example.com", refuse, refuse},
		{"file:///etc/passwd", refuse, refuse},
		{"gopher://api.example.com", refuse, refuse},
		{"unix:/run/docker.sock", refuse, refuse},
		{"https:api.example.com", refuse, refuse},
		{"//api.example.com", refuse, refuse},
		{"api.example.com", refuse, refuse},
		{"", refuse, refuse},
		{"https://", refuse, refuse},
		{"https://user:hunter2@api.example.com", refuse, refuse},
		{"https://api.example.com@127.0.0.1", refuse, refuse},
		{"https://api.example.com\\@127.0.0.1", refuse, refuse},
		{"https://api.example.com\t.evil", refuse, refuse},
		{"https://api.example.com:0", refuse, refuse},
		{"https://api.example.com:65536", refuse, refuse},
		{"https://api.example.com:", refuse, refuse},
		{"https://api..example.com", refuse, refuse},
		{"https://-.example.com/", unresolved, unresolved},
		{"https://" + strings.Repeat("a", 64) + ".com", refuse, refuse},
		{"https://" + strings.Repeat("a.", 130) + "com", refuse, refuse},
		{"https://*.example.com", refuse, refuse},
		{"https://absent.example.com", unresolved, unresolved},
		{"https://empty.example.com", unresolved, unresolved},
	} {
		for name, want := range map[*Guard]string{strict: c.strict, private: c.private} {
			_, err := name.Validate(t.Context(), c.url)
			got := pass
			switch {
			case errors.Is(err, ErrBlocked):
				got = refuse
			case err != nil:
				got = unresolved
			}
			if got != want {
				t.Errorf("%q, private %v: %s (%v), want %s", c.url, name.p.AllowPrivate, got, err, want)
			}
			if err != nil && strings.Contains(err.Error(), "hunter2") {
				t.Errorf("%q: the error quotes a password: %v", c.url, err)
			}
		}
	}
}

// TestPolicy: hosts, ports, networks, denials and plain HTTP.
func TestPolicy(t *testing.T) {
	dns := &names{answers: map[string][][]string{
		"api.example.com":   {{"93.184.215.14"}},
		"a.b.example.org":   {{"93.184.215.14"}},
		"intern.example.io": {{"10.1.2.3"}},
	}}
	net := netip.MustParsePrefix
	for name, c := range map[string]struct {
		policy Policy
		url    string
		want   string
		asks   int
	}{
		"listed host":                          {Policy{Hosts: []string{"API.example.com."}}, "https://api.example.com", pass, 1},
		"other host is not asked":              {Policy{Hosts: []string{"api.example.com"}}, "https://a.b.example.org", refuse, 0},
		"below a zone":                         {Policy{Hosts: []string{"*.example.org"}}, "https://a.b.example.org", pass, 1},
		"a zone is not below":                  {Policy{Hosts: []string{"*.b.example.org"}}, "https://b.example.org", refuse, 0},
		"a suffix is no zone":                  {Policy{Hosts: []string{"*.ample.com"}}, "https://api.example.com", refuse, 0},
		"listed address":                       {Policy{Hosts: []string{"93.184.215.14"}}, "https://[::ffff:93.184.215.14]", pass, 0},
		"a listed host still has to be public": {Policy{Hosts: []string{"intern.example.io"}}, "https://intern.example.io", refuse, 1},
		"listed port":                          {Policy{Ports: []uint16{8443}}, "https://api.example.com:8443", pass, 1},
		"other port":                           {Policy{Ports: []uint16{8443}}, "https://api.example.com", refuse, 0},
		"default port":                         {Policy{Ports: []uint16{443}}, "https://api.example.com", pass, 1},
		"plain http":                           {Policy{RequireTLS: true}, "http://api.example.com", refuse, 0},
		"tls":                                  {Policy{RequireTLS: true}, "https://api.example.com", pass, 1},
		"named network":                        {Policy{Networks: []netip.Prefix{net("10.1.0.0/16")}}, "https://intern.example.io", pass, 1},
		"other network":                        {Policy{Networks: []netip.Prefix{net("10.2.0.0/16")}}, "https://intern.example.io", refuse, 1},
		"never by a network":                   {Policy{Networks: []netip.Prefix{net("169.254.0.0/16")}}, "https://169.254.169.254", refuse, 0},
		"denied":                               {Policy{AllowPrivate: true, Deny: []netip.Prefix{net("10.1.2.0/24")}}, "https://intern.example.io", refuse, 1},
		"denied, public":                       {Policy{Deny: []netip.Prefix{net("93.184.0.0/16")}}, "https://api.example.com", refuse, 1},
	} {
		dns.asked = nil
		c.policy.Resolver = dns
		_, err := guard(t, c.policy).Validate(t.Context(), c.url)
		got := pass
		if errors.Is(err, ErrBlocked) {
			got = refuse
		} else if err != nil {
			got = unresolved
		}
		if got != c.want || len(dns.asked) != c.asks {
			t.Errorf("%s: %s (%v) with %d questions, want %s with %d", name, got, err, len(dns.asked), c.want, c.asks)
		}
	}
}

func TestNewRefuses(t *testing.T) {
	for name, p := range map[string]Policy{
		"a nat64 length":  {NAT64: []netip.Prefix{netip.MustParsePrefix("64:ff9b:1::/50")}},
		"nat64 of ipv4":   {NAT64: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/32")}},
		"no network":      {Networks: []netip.Prefix{{}}},
		"no denied one":   {Deny: []netip.Prefix{{}}},
		"a host":          {Hosts: []string{"https://api.example.com"}},
		"an odd address":  {Hosts: []string{"127.1"}},
		"below addresses": {Hosts: []string{"*.10.0.0.1"}},
	} {
		if _, err := New(p); err == nil {
			t.Errorf("%s is accepted", name)
		}
	}
}

// FuzzCheckURL: whatever passes has a host that is a public address, or a name that
// nobody reads as an address.
func FuzzCheckURL(f *testing.F) {
	for _, u := range []string{
		"https://api.example.com/x", "https://127.1", "http://[::ffff:169.254.169.254]:80", "https://a@b", "https://0x7f.1", "https://[fe80::1%25a]",
	} {
		f.Add(u)
	}
	g := guard(f, Policy{})
	f.Fuzz(func(t *testing.T, raw string) {
		u, err := g.CheckURL(raw)
		if err != nil {
			if !errors.Is(err, ErrBlocked) {
				t.Errorf("%q: %v", raw, err)
			}
			return
		}
		host := u.Hostname()
		if u.User != nil || host == "" || strings.ContainsAny(host, "%@/\\ ") {
			t.Errorf("%q passed with host %q", raw, host)
		}
		if a, err := netip.ParseAddr(strings.TrimSuffix(host, ".")); err == nil {
			if Classify(a) != Public {
				t.Errorf("%q passed", raw)
			}
			return
		}
		labels := strings.Split(strings.TrimSuffix(strings.ToLower(host), "."), ".")
		if isNumber(labels[len(labels)-1]) {
			t.Errorf("%q passed: its host may be read as an address", raw)
		}
	})
}
