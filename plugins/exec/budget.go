package exec

import (
	"fmt"
	"net/http"

	"github.com/caisson-run/caisson/host"
	"github.com/caisson-run/caisson/plugins/exec/internal/bodies"
	"github.com/caisson-run/caisson/plugins/exec/internal/programmatic"
	"github.com/caisson-run/caisson/plugins/exec/internal/shallow"
)

// programMembers are the members of a program's first request that mean something.
var programMembers = []string{
	"lang", "language", "code", "session_id", "user_id", "entity_id", "runtime_session_hint", "timeout", "args", "files", "tools",
}

// elementsMost bounds the arrays of a request by name: it is refused at the first element too
// many, whatever would follow.
var elementsMost = map[string]int{"args": maxArgs, "files": maxFiles, "tools": maxTools}

// maxMembers bounds the members of a body: reading them costs more than their bytes.
const maxMembers = 4096

// newBodies is the budget of all JSON bodies at once.
func newBodies(o Options) *bodies.Budget {
	return bodies.New(o.BodyMemoryBytes, o.BodyMemoryBytes/2, max(bodies.Factor*o.BodyBytes, bodies.FactorParts*programmatic.MaxBody))
}

// weighed has what is read of a body counted against share, and its elements.
func (g *guarded) weighed(share *bodies.Body) *guarded {
	g.share, g.count = share, &shallow.Counter{Most: elementsMost, Members: maxMembers}
	return g
}

// weigh counts a piece.
func (g *guarded) weigh(p []byte) error {
	if g.share == nil {
		return nil
	}
	if err := g.share.Read(len(p)); err != nil {
		return tooManyBodies(err)
	}
	switch field, err := g.count.Write(p); {
	case err != nil && field == "":
		return refuse(http.StatusBadRequest, "invalid_request", fmt.Sprintf("the body has more than %d members", maxMembers))
	case err != nil:
		return refuse(http.StatusBadRequest, "invalid_request", fmt.Sprintf("%s has more than %d elements", field, elementsMost[field]))
	}
	return nil
}

func tooManyBodies(err error) *host.HTTPError {
	return rateLimited("too many large requests at once", defaultRetry, err)
}
