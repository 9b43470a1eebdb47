package redis

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"sync"

	goredis "github.com/redis/go-redis/v9"

	"github.com/caisson-run/caisson/host/session/binding"
)

// page is how many keys one round trip of a long operation is about.
const page = 256

// Bindings implements binding.Engine.
func (e *Engine) Bindings(ctx context.Context, list []binding.Key) (map[binding.Key]binding.Binding, error) {
	found := make(map[binding.Key]binding.Binding)
	var errs []error
	for len(list) > 0 {
		part := list[:min(page, len(list))]
		list = list[len(part):]
		err := e.read(ctx, part, func(b binding.Binding, bound bool, err error) bool {
			if err != nil {
				errs = append(errs, err)
			} else if bound {
				found[b.Key] = b
			}
			return true
		})
		if err != nil {
			return nil, err
		}
	}
	return found, errors.Join(errs...)
}

// read gets some bindings in one round trip and passes each on. The error is about
// all of them.
func (e *Engine) read(ctx context.Context, list []binding.Key, each func(binding.Binding, bool, error) bool) error {
	cmds, err := e.pipeline(ctx, len(list), func(p goredis.Pipeliner, i int) *goredis.Cmd {
		return p.Do(ctx, "HGETALL", e.keys(list[i]).binding())
	})
	if err != nil {
		return err
	}
	for i, cmd := range cmds {
		var b binding.Binding
		bound := false
		v, err := cmd.Result()
		if err = classify(err); err == nil {
			b, bound, err = decode(list[i], flat(v))
		} else if !errors.Is(err, binding.ErrCorrupt) {
			return err
		}
		if err != nil {
			err = fmt.Errorf("%v: %w", list[i], err)
		}
		if !each(b, bound, err) {
			return nil
		}
	}
	return nil
}

// pipeline sends n commands in one round trip. A pipeline that got no connection
// leaves its commands without an error, which must not be read as empty answers.
func (e *Engine) pipeline(ctx context.Context, n int, command func(p goredis.Pipeliner, i int) *goredis.Cmd) ([]*goredis.Cmd, error) {
	cmds := make([]*goredis.Cmd, n)
	_, err := e.client.Pipelined(ctx, func(p goredis.Pipeliner) error {
		for i := range cmds {
			cmds[i] = command(p, i)
		}
		return nil
	})
	for _, cmd := range cmds {
		if cmd.Err() == nil && cmd.Val() == nil {
			if err == nil {
				err = errors.New("a command of a pipeline was not answered")
			}
			return nil, classify(err)
		}
	}
	return cmds, nil
}

// flat is a hash as names and values in turn; the newer protocol answers a map.
func flat(v any) []any {
	switch v := v.(type) {
	case []any:
		return v
	case map[any]any:
		list := make([]any, 0, 2*len(v))
		for name, value := range v {
			list = append(list, name, value)
		}
		return list
	}
	return nil
}

// All implements binding.Engine.
func (e *Engine) All(ctx context.Context, f binding.Filter) iter.Seq2[binding.Binding, error] {
	return func(yield func(binding.Binding, error) bool) {
		seen := make(map[binding.Key]bool)
		err := e.scan(ctx, f.Tenant, func(list []binding.Key) (bool, error) {
			fresh := list[:0]
			for _, k := range list {
				if !seen[k] {
					seen[k] = true
					fresh = append(fresh, k)
				}
			}
			more := true
			err := e.read(ctx, fresh, func(b binding.Binding, bound bool, err error) bool {
				if err != nil || (bound && f.Matches(b)) {
					more = yield(b, err)
				}
				return more
			})
			return more, err
		})
		if err != nil {
			yield(binding.Binding{}, err)
		}
	}
}

// MarkStale implements binding.Engine. Records of another version cannot be marked:
// that is an error, after the others were.
func (e *Engine) MarkStale(ctx context.Context, tenant, config string) (int, error) {
	marked := 0
	var unknown []error
	err := e.scan(ctx, tenant, func(list []binding.Key) (bool, error) {
		answers, err := e.each(ctx, e.scripts.stale, list, tenant, config)
		if err != nil {
			return false, err
		}
		for i, a := range answers {
			switch {
			case errors.Is(a.err, binding.ErrSchema), errors.Is(a.err, binding.ErrCorrupt):
				unknown = append(unknown, fmt.Errorf("%v: %w", list[i], a.err))
			case a.err != nil:
				return false, a.err
			default:
				marked += int(a.int(0))
			}
		}
		return true, nil
	})
	return marked, errors.Join(append(unknown, err)...)
}

type outcome struct {
	reply
	err error
}

// each runs a script on the binding of each session, in one round trip, or in two
// where a server does not have the script.
func (e *Engine) each(ctx context.Context, s *goredis.Script, list []binding.Key, args ...any) ([]outcome, error) {
	args = append([]any{e.now()}, args...)
	cmds, err := e.pipeline(ctx, len(list), func(p goredis.Pipeliner, i int) *goredis.Cmd {
		return s.EvalSha(ctx, p, []string{e.keys(list[i]).binding()}, args...)
	})
	if err != nil {
		return nil, err
	}
	var again []int
	for i, cmd := range cmds {
		if goredis.HasErrorPrefix(cmd.Err(), "NOSCRIPT") {
			again = append(again, i)
		}
	}
	if len(again) > 0 {
		repeated, err := e.pipeline(ctx, len(again), func(p goredis.Pipeliner, i int) *goredis.Cmd {
			return s.Eval(ctx, p, []string{e.keys(list[again[i]]).binding()}, args...)
		})
		if err != nil {
			return nil, err
		}
		for i, cmd := range repeated {
			cmds[again[i]] = cmd
		}
	}
	answers := make([]outcome, len(list))
	for i, cmd := range cmds {
		answers[i].reply, answers[i].err = answer(cmd.Result())
	}
	return answers, nil
}

// scan visits the keys of bindings, of one tenant or all, some more than once, in
// every part of the server. It costs the server a look at each of its keys.
func (e *Engine) scan(ctx context.Context, tenant string, visit func([]binding.Key) (more bool, err error)) error {
	nodes, err := e.nodes(ctx)
	if err != nil {
		return err
	}
	for _, node := range nodes {
		var cursor uint64
		for {
			names, next, err := node.Scan(ctx, cursor, e.pattern(tenant), 4*page).Result()
			if err != nil {
				return classify(err)
			}
			list := make([]binding.Key, 0, len(names))
			for _, name := range names {
				if k, ok := e.parse(name); ok {
					list = append(list, k)
				}
			}
			for len(list) > 0 {
				part := list[:min(page, len(list))]
				list = list[len(part):]
				if more, err := visit(part); err != nil || !more {
					return err
				}
			}
			if cursor = next; cursor == 0 {
				break
			}
		}
	}
	return nil
}

// nodes are the servers that hold keys.
func (e *Engine) nodes(ctx context.Context) ([]goredis.Cmdable, error) {
	cluster, ok := e.client.(*goredis.ClusterClient)
	if !ok {
		return []goredis.Cmdable{e.client}, nil
	}
	var mu sync.Mutex
	var list []goredis.Cmdable
	err := cluster.ForEachMaster(ctx, func(_ context.Context, node *goredis.Client) error {
		mu.Lock()
		defer mu.Unlock()
		list = append(list, node)
		return nil
	})
	return list, classify(err)
}
