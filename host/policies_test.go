package host

import (
	"context"
	"errors"
	"testing"

	"github.com/caisson-run/caisson/sdk/policy"
	"github.com/hashicorp/go-hclog"
)

// scripted answers like a module, byte for byte.
type scripted func(ctx context.Context, op uint32, input []byte) ([]byte, error)

func (s scripted) Call(ctx context.Context, op uint32, input, out []byte) ([]byte, error) {
	b, err := s(ctx, op, input)
	return append(out, b...), err
}

func (scripted) Close(context.Context) error { return nil }

func answer(s string) scripted {
	return func(context.Context, uint32, []byte) ([]byte, error) { return []byte(s), nil }
}

func judges(modules ...module) *Host {
	var all policies
	for i, m := range modules {
		all = append(all, boundPolicy{name: string(rune('a' + i)), module: m})
	}
	return serve(&moduleSet{chain: newChain(all)})
}

// serve is a host with modules and nothing else.
func serve(s *moduleSet) *Host {
	return &Host{log: hclog.NewNullLogger(), modules: newModules(s)}
}

const allow = `{"decision":"allow"}`

func TestAdmit(t *testing.T) {
	never := scripted(func(context.Context, uint32, []byte) ([]byte, error) {
		t.Error("asked after a deny")
		return nil, nil
	})
	broken := scripted(func(context.Context, uint32, []byte) ([]byte, error) { return nil, errors.New("trap: unreachable") })
	for _, c := range []struct {
		name   string
		chain  []module
		denied string // by this policy
		code   string
		wall   int64 // when allowed
	}{
		{"no policies", nil, "", "", 1000},
		{"all allow", []module{answer(allow), answer(allow)}, "", "", 1000},
		{"deny stops", []module{answer(allow), answer(`{"decision":"deny","reason":"no","code":"nope"}`), never}, "b", "nope", 0},
		{"trap denies", []module{broken, never}, "a", "policy_failed", 0},
		{"silence denies", []module{answer(""), never}, "a", "policy_failed", 0},
		{"garbage denies", []module{answer("yes"), never}, "a", "policy_failed", 0},
		{"unknown decision denies", []module{answer(`{"decision":"maybe"}`), never}, "a", "policy_failed", 0},
		{"unknown member denies", []module{answer(`{"decision":"allow","also":1}`), never}, "a", "policy_failed", 0},
		{"deny without reason denies", []module{answer(`{"decision":"deny"}`), never}, "a", "policy_failed", 0},
		{"limits tighten", []module{answer(`{"decision":"allow","limits":{"wall_ms":500}}`), answer(allow)}, "", "", 500},
		{"limits never widen", []module{answer(`{"decision":"allow","limits":{"wall_ms":5000}}`)}, "", "", 1000},
		{"a later policy cannot loosen", []module{answer(`{"decision":"allow","limits":{"wall_ms":500}}`), answer(`{"decision":"allow","limits":{"wall_ms":900}}`)}, "", "", 500},
	} {
		t.Run(c.name, func(t *testing.T) {
			ruling, err := judges(c.chain...).Admit(t.Context(), policy.Request{Org: "o", Limits: policy.Limits{WallMS: 1000, MemoryBytes: 7}})
			limits := ruling.Limits
			var pe *PolicyError
			switch {
			case c.denied == "" && (err != nil || limits.WallMS != c.wall || limits.MemoryBytes != 7):
				t.Errorf("Admit = %+v, %v; want wall %d", limits, err, c.wall)
			case c.denied != "" && (!errors.As(err, &pe) || pe.Policy != c.denied || pe.Code != c.code || pe.Reason == ""):
				t.Errorf("Admit = %+v, %v; want a deny of %q with code %q", limits, err, c.denied, c.code)
			}
		})
	}
}

func TestAdmitShowsOnlyWhatAPolicyNeeds(t *testing.T) {
	for _, c := range []struct {
		needs             []string
		code, args, files bool
	}{{nil, false, false, false}, {[]string{"code"}, true, false, false}, {[]string{"args", "files"}, false, true, true}} {
		judge := scripted(func(_ context.Context, _ uint32, in []byte) ([]byte, error) {
			r, err := policy.DecodeRequest(in)
			if err != nil {
				t.Error(err)
			}
			if (r.Code != "") != c.code || (r.Args != nil) != c.args || (r.Files != nil) != c.files || r.CodeBytes != 4 {
				t.Errorf("needs %v: shown %+v", c.needs, r)
			}
			return []byte(allow), nil
		})
		h := serve(&moduleSet{chain: newChain(policies{{name: "a", needs: c.needs, module: judge}})})
		if _, err := h.Admit(t.Context(), policy.Request{
			Org: "o", Via: "bearer", Language: "py", Config: "c", Network: "none", Limits: policy.Limits{WallMS: 1},
			Code: "code", CodeBytes: 4, Args: []string{"a"}, Files: []policy.File{{Name: "f", Size: 1}},
		}); err != nil {
			t.Error(err)
		}
	}
}

// A caller who goes away is not a policy that failed.
func TestAdmitOfACancelledCaller(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	h := judges(scripted(func(ctx context.Context, _ uint32, _ []byte) ([]byte, error) {
		cancel()
		return nil, ctx.Err()
	}))
	if _, err := h.Admit(ctx, policy.Request{}); !errors.Is(err, context.Canceled) {
		t.Errorf("err = %v, want context.Canceled", err)
	}
}
