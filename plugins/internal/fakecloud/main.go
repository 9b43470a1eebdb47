// Command fakecloud serves a whole fake provider on this machine, control plane and
// gateway, so that a plugin can be tried by hand:
//
//	go run ./plugins/internal/fakecloud
//	go run ./plugins/internal/fakecloud -provider cube
//
// It prints what a config needs. Programs of its sandboxes run on this machine, as
// whoever started it, isolated from nothing: it is for trying things, and no backend.
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/caisson-run/caisson/plugins/internal/controlfake"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "fakecloud:", err)
		os.Exit(1)
	}
}

func run(args []string) (err error) {
	flags := flag.NewFlagSet("fakecloud", flag.ContinueOnError)
	provider := flags.String("provider", "e2b", "e2b or cube")
	api := flags.String("api", "127.0.0.1:3100", "where the control plane listens")
	gateway := flags.String("gateway", "127.0.0.1:3101", "where the gateway listens")
	domain := flags.String("domain", "sandbox.test", "the suffix of sandboxes' host names")
	key := flags.String("key", "e2b_0000000000000000000000000000000000000000", "the key that callers present")
	if err := flags.Parse(args); err != nil {
		return err
	}
	kinds := map[string]controlfake.Provider{"e2b": controlfake.E2B, "cube": controlfake.Cube}
	kind, ok := kinds[*provider]
	if !ok {
		return fmt.Errorf("-provider: %q is neither e2b nor cube", *provider)
	}
	dir, err := os.MkdirTemp("", "fakecloud-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	s, err := controlfake.Listen(controlfake.Options{
		Provider: kind, Dir: dir, APIKey: *key, Domain: *domain, Templates: []string{"base"},
		Violation: func(text string) { fmt.Fprintln(os.Stderr, "violation:", text) },
	}, *api, *gateway)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	fmt.Printf("api_url: %s\nproxy_url: %s\nsandbox_domain: %s\ntemplate_id: base\nallow_private: true\n", s.API, s.GatewayURL, *domain)
	fmt.Printf("# the provider's own client: E2B_API_KEY=%s E2B_API_URL=%s E2B_SANDBOX_URL=%s\n", *key, s.API, s.GatewayURL)
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, os.Interrupt, syscall.SIGTERM)
	<-stop
	return nil
}
