package account

import (
	"context"
	"sync"

	"github.com/caisson-run/caisson/sdk/backend"
)

// memory is what one client of an account remembers of tokens.
type memory struct {
	mu     sync.Mutex
	tokens map[string]string
}

func (m *memory) learn(id, token string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.tokens == nil {
		m.tokens = make(map[string]string)
	}
	m.tokens[id] = token
}

func (m *memory) token(id string) string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.tokens[id]
}

// Restart makes the client forget every token that it was told.
func (a *Account) Restart() {
	a.memory.mu.Lock()
	defer a.memory.mu.Unlock()
	a.memory.tokens = nil
}

// ConnectToken implements backend.TokenConnector.
func (a *Account) ConnectToken(ctx context.Context, ref backend.Ref, token string) (backend.Sandbox, error) {
	a.memory.learn(ref.ID, token)
	return a.Connect(ctx, ref)
}
