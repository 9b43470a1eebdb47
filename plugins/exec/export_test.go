package exec

import (
	"os"
	"time"

	"github.com/caisson-run/caisson/host/identity"
	"github.com/caisson-run/caisson/sdk/backend"
)

// OpenForExample returns an interpreter on a backend of shell processes.
func OpenForExample() (i *Interpreter, live func() int, done func() error) {
	dir, err := os.MkdirTemp("", "exec-example-")
	if err != nil {
		panic(err)
	}
	r := &rig{configs: []string{"main"}, clock: &clock{t: time.Unix(0, 0)}, limits: backend.Limits{Wall: time.Minute, StdoutBytes: 1 << 20, StderrBytes: 1 << 20}}
	if r.shells, err = newShells(dir, r.clock.now, "main", "other"); err != nil {
		panic(err)
	}
	if r.keys, err = identity.NewKeys([]byte("an old enough secret of the example")); err != nil {
		panic(err)
	}
	r.restart()
	if i, err = newInterpreter(r, Options{}); err != nil {
		panic(err)
	}
	return i, func() int { return len(r.shells.live()) }, r.shells.Close
}
