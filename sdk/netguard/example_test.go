package netguard_test

import (
	"fmt"

	"github.com/caisson-run/caisson/sdk/netguard"
)

// A platform judges an endpoint when a tenant saves it, and connects through the same
// guard later, whatever the name resolves to by then.
func Example() {
	guard, err := netguard.New(netguard.Policy{RequireTLS: true})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, endpoint := range []string{"http://93.184.215.14", "https://127.1", "https://[::ffff:169.254.169.254]/latest"} {
		if _, err := guard.CheckURL(endpoint); err != nil {
			fmt.Println(err)
		}
	}
	client := guard.Client(netguard.TransportOptions{})
	defer client.CloseIdleConnections()
	_, err = client.Get("https://10.0.0.1/")
	fmt.Println(err)
	// Output:
	// refused by the outbound policy: http is not allowed: use https
	// refused by the outbound policy: host "127.1": write an IPv4 address as four decimal numbers
	// refused by the outbound policy: ::ffff:169.254.169.254 is metadata and never admitted
	// Get "https://10.0.0.1/": refused by the outbound policy: 10.0.0.1 is private: private addresses have to be allowed
}
