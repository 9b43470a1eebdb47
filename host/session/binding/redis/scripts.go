package redis

import (
	"context"
	"embed"
	"fmt"

	goredis "github.com/redis/go-redis/v9"
)

//go:embed lua/*.lua
var sources embed.FS

// scripts are the steps of an engine. Each takes the keys of one session, which are
// in one slot of a cluster, and answers an array whose first element is a word.
type scripts struct {
	state, create, delete, token, stale, lock, rewind, begin, renew, renewTurn,
	release, end, add, renewWork, remove, work *goredis.Script
}

func load() scripts {
	read := func(name string) string {
		text, err := sources.ReadFile("lua/" + name + ".lua")
		if err != nil {
			panic(err) // it is compiled in
		}
		return string(text)
	}
	prelude := read("prelude")
	script := func(name string) *goredis.Script { return goredis.NewScript(prelude + read(name)) }
	return scripts{
		state: script("state"), create: script("create"), delete: script("delete"), token: script("token"),
		stale: script("stale"), lock: script("lock"), rewind: script("rewind"), begin: script("begin"),
		renew: script("renew"), renewTurn: script("renewturn"), release: script("release"), end: script("end"),
		add: script("add"), renewWork: script("renewwork"), remove: script("remove"), work: script("work"),
	}
}

// run runs a script by its digest, in one round trip, or sends it once to a server
// that does not have it yet.
func (e *Engine) run(ctx context.Context, s *goredis.Script, keys []string, args ...any) (reply, error) {
	args = append([]any{e.now()}, args...)
	v, err := s.EvalSha(ctx, e.client, keys, args...).Result()
	if goredis.HasErrorPrefix(err, "NOSCRIPT") {
		v, err = s.Eval(ctx, e.client, keys, args...).Result()
	}
	return answer(v, err)
}

// reply is what a script answered, after its first word.
type reply []any

// answer reads a script's first word.
func answer(v any, err error) (reply, error) {
	if err != nil {
		return nil, classify(err)
	}
	list, _ := v.([]any)
	if len(list) == 0 {
		return nil, fmt.Errorf("a script answered %T", v)
	}
	if word, _ := list[0].(string); word != "ok" {
		return list[1:], wordError(word, list[1:])
	}
	return list[1:], nil
}

func (r reply) int(i int) int64 {
	if i >= len(r) {
		return 0
	}
	n, _ := r[i].(int64)
	return n
}

func (r reply) text(i int) string {
	if i >= len(r) {
		return ""
	}
	s, _ := r[i].(string)
	return s
}
