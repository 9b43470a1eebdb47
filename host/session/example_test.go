package session_test

import (
	"context"
	"fmt"
	"time"

	"github.com/caisson-run/caisson/host/session"
	"github.com/caisson-run/caisson/host/session/binding"
	"github.com/caisson-run/caisson/host/session/binding/memory"
	"github.com/caisson-run/caisson/host/session/internal/account"
	"github.com/caisson-run/caisson/sdk/backend"
)

// chats is the platform's own database.
type chats map[string]bool

func (c chats) SessionExists(_ context.Context, key binding.Key) (bool, error) {
	return c[key.Tenant+"/"+key.Session], nil
}

// A platform gives each of its chats a sandbox. The resolver comes from
// host.Host.Managed; here it stands over an account of the tests.
func Example() {
	ctx := context.Background()
	targets := &account.Replica{Accounts: map[string]*account.Account{"main": account.New(time.Now, named...)}, Order: []string{"main"}}
	store, err := memory.New(binding.Options{})
	if err != nil {
		panic(err)
	}
	defer store.Close()
	database := chats{"acme/chat-7": true}
	resolver, err := session.NewResolver(ctx, session.ManagerOptions{Targets: targets, Store: store, Exists: database})
	if err != nil {
		panic(err)
	}

	// For each request: who asks, and which of its named configs the chat uses.
	manager, err := resolver.Resolve(ctx, "acme", "")
	if err != nil {
		panic(err)
	}
	// A turn keeps the sandbox from being replaced or rewound half-way.
	end, err := manager.BeginTurn(ctx, "chat-7")
	if err != nil {
		panic(err)
	}
	defer end()
	if _, err := manager.Bound(ctx, "chat-7"); err != nil {
		fmt.Println("before:", err)
	}
	result, err := manager.Exec(ctx, "chat-7", backend.ExecRequest{Argv: []string{"ls"}}) // makes the sandbox
	if err != nil {
		panic(err)
	}
	fmt.Println("ran:", result.Stop)

	// The chat is deleted: its sandbox goes, and none is made for it again.
	delete(database, "acme/chat-7")
	if err := manager.Destroy(ctx, "chat-7"); err != nil {
		panic(err)
	}
	_, err = manager.Exec(ctx, "chat-7", backend.ExecRequest{Argv: []string{"ls"}})
	fmt.Println("after:", err)
	// Output:
	// before: session has no sandbox
	// ran: exit
	// after: session no longer exists
}
