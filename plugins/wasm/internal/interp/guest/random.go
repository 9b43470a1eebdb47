package guest

import (
	"context"
	"crypto/rand"

	"github.com/tetratelabs/wazero/api"
)

// randomPart is how many random bytes are made between two looks at whether the run
// is over.
const randomPart = 256 << 10

// randomGet implements random_get with the host's generator.
func randomGet(ctx context.Context, m api.Module, stack []uint64) {
	b, ok := m.Memory().Read(uint32(stack[0]), uint32(stack[1]))
	if !ok {
		stack[0] = wasiFault
		return
	}
	for len(b) > 0 {
		part := b[:min(len(b), randomPart)]
		_, _ = rand.Read(part) // never fails
		if b = b[len(part):]; len(b) > 0 {
			Yield(ctx)
		}
	}
	stack[0] = 0
}
