// Package netguard decides where a program may connect to when the address came
// from somebody else: a tenant's API endpoint, an operator's gateway, a webhook. It
// is used by backend plugins and meant for platforms as well.
//
// A name is judged twice. [Guard.Validate] is for the moment when a configuration is
// saved: it explains what is wrong in words. It proves nothing, since a name may
// resolve to something else a second later. What protects is the second decision, on
// the concrete address, at the moment of the connection: [Guard.DialContext],
// [Guard.Transport] and [Guard.Control] make it, and nothing that they dial escapes it.
//
//	guard, err := netguard.New(netguard.Policy{})
//	...
//	if _, err := guard.Validate(ctx, config.Endpoint); err != nil {
//		return err // tells the person who saves
//	}
//	client := guard.Client(netguard.TransportOptions{})
//	resp, err := client.Get(config.Endpoint) // decided again, on the address
//
// The default policy admits public unicast addresses and nothing else.
// [Policy.AllowPrivate] admits private networks, loopback and shared address space
// besides; link-local, metadata, multicast, unspecified and reserved addresses are
// admitted by no policy. An IPv4 address inside an IPv6 address counts as if it had
// been written alone.
//
// The package is no firewall: it sees what is dialled through it. It does not inspect
// what is sent, and a proxy that it is told to dial goes wherever it likes.
package netguard
