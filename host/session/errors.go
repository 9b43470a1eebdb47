package session

import (
	"errors"
	"fmt"
)

// Errors to branch on, with errors.Is. Beside them, callers meet those of package
// binding, *backend.Error values and the context's own. A session that another
// tenant owns is ErrNotFound, exactly like one that never existed.
var (
	// ErrNotFound: no such session for this owner.
	ErrNotFound = errors.New("session not found")
	// ErrPaused: the session exists and is not known to be running; only work, or a
	// caller that asks for it, wakes it.
	ErrPaused = errors.New("session is paused")
	// ErrStopped is ErrPaused for backends that never pause: what does not run there
	// was stopped, and working in it starts it again.
	ErrStopped = fmt.Errorf("session is stopped: %w", ErrPaused)
	// ErrBusy: too many runs wait for this session already.
	ErrBusy = errors.New("session is busy")
	// ErrConfigNotFound: the named config does not exist. It is never replaced
	// by the default.
	ErrConfigNotFound = errors.New("sandbox config not found")
	// ErrConfigCordoned: the named config is being changed. The same call may succeed
	// in a moment.
	ErrConfigCordoned = errors.New("sandbox config is being changed")
	// ErrDisabled: there are no sandboxes here.
	ErrDisabled = errors.New("sandboxes are disabled")
	// ErrClosed: the Manager is closed.
	ErrClosed = errors.New("session manager is closed")
	// ErrDeleted: the embedder says that the session no longer exists, so nothing
	// may be made for it.
	ErrDeleted = errors.New("session no longer exists")
	// ErrNoSandbox: the session has no sandbox, and the call does not make one.
	ErrNoSandbox = errors.New("session has no sandbox")
	// ErrChanged: the sandbox that a caller meant is proven to be another one now, or
	// gone.
	ErrChanged = errors.New("session has another sandbox now")
	// ErrElsewhere: the session's sandbox lives on another node, which has to be
	// asked.
	ErrElsewhere = errors.New("session is on another node")
	// ErrUnsupported: the backend cannot do this.
	ErrUnsupported = errors.New("not supported by this sandbox backend")
)
