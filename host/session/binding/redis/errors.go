package redis

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/caisson-run/caisson/host/session/binding"
)

// wordError is the error that a script answered in a word.
func wordError(word string, rest reply) error {
	switch word {
	case "lost":
		return binding.ErrOwnershipLost
	case "schema":
		return &binding.SchemaError{Version: rest.text(0)}
	case "rewind":
		return binding.ErrRewindLocked
	case "turn":
		return binding.ErrTurnActive
	case "work":
		return binding.ErrWorkActive
	case "limit":
		return binding.ErrWorkLimit
	case "busy":
		return errBusy
	}
	return fmt.Errorf("a script answered %q", word)
}

var errBusy = errors.New("held by another")

// refusals are the words that a server's errors begin with, by what they mean.
var refusals = []struct {
	word   string
	reason binding.Reason
	after  time.Duration
}{
	{"NOAUTH", binding.Auth, time.Minute},
	{"WRONGPASS", binding.Auth, time.Minute},
	{"NOPERM", binding.Auth, time.Minute},
	{"ERR AUTH", binding.Auth, time.Minute},
	{"ERR Protocol error: unauthenticated", binding.Auth, time.Minute},
	{"ERR invalid password", binding.Auth, time.Minute},
	{"ERR Client sent AUTH", binding.Auth, time.Minute},
	{"READONLY", binding.ReadOnly, 5 * time.Second},
	{"NOREPLICAS", binding.ReadOnly, 5 * time.Second},
	{"MASTERDOWN", binding.ReadOnly, 5 * time.Second},
	{"OOM", binding.Full, 30 * time.Second},
	{"MISCONF", binding.Full, 30 * time.Second},
	{"BUSY", binding.Slow, time.Second},
	{"LOADING", binding.Down, time.Second},
	{"CLUSTERDOWN", binding.Down, time.Second},
	{"TRYAGAIN", binding.Down, time.Second},
	{"ERR max number of clients", binding.Down, time.Second},
}

// classify turns the client's errors into those of a store. It quotes what the
// server said, which holds neither credentials nor records.
func classify(err error) error {
	var server goredis.Error
	var timeout net.Error
	switch {
	case err == nil:
		return nil
	case errors.Is(err, goredis.ErrClosed):
		return binding.ErrClosed
	case errors.Is(err, context.Canceled):
		return err
	case errors.As(err, &server):
		return classifyReply(err)
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, os.ErrDeadlineExceeded),
		errors.Is(err, goredis.ErrPoolTimeout), errors.Is(err, goredis.ErrPoolExhausted),
		errors.As(err, &timeout) && timeout.Timeout():
		return &binding.Error{Reason: binding.Slow, RetryAfter: time.Second, Err: err}
	}
	return &binding.Error{Reason: binding.Down, RetryAfter: time.Second, Err: err}
}

func classifyReply(err error) error {
	text := err.Error()
	// Before Redis 7, what a command inside a script said comes last.
	if i := strings.LastIndex(text, ": -"); i >= 0 && strings.HasPrefix(text, "ERR Error running script") {
		text = text[i+3:]
	}
	if strings.HasPrefix(text, "WRONGTYPE") {
		return fmt.Errorf("%w: a key of this session holds something else", binding.ErrCorrupt)
	}
	for _, r := range refusals {
		if strings.HasPrefix(text, r.word) {
			return &binding.Error{Reason: r.reason, RetryAfter: r.after, Err: err}
		}
	}
	return &binding.Error{Reason: binding.Refused, RetryAfter: 5 * time.Second, Err: err}
}
