package host

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/caisson-run/caisson/manifest"
	"github.com/caisson-run/caisson/runtimes/wasm"
	"github.com/caisson-run/caisson/sdk/language"
	"github.com/caisson-run/caisson/sdk/policy"
	"github.com/hashicorp/go-hclog"
)

// Lint reads what lies in dir and holds it against its manifest, as Open would,
// without starting or running it. What is wrong is in State and Cause, what is odd in
// Warnings.
func Lint(ctx context.Context, dir string, trust Trust) PluginDetail {
	f := inspect(dir, "", trust)
	d := describe(f)
	if f.m == nil {
		return d
	}
	d.Warnings = f.beside()
	code, err := f.look(ctx)
	switch {
	case err != nil:
	case f.m.Runtime == manifest.RuntimeProcess:
		d.Digest, err = sumOfFile(f.artifact())
	default:
		d.Digest, d.Links = code.Digest, code.Imports
	}
	f.fail(err)
	d.PluginStatus = f.status
	return d
}

// VerifyOptions of VerifyModule.
type VerifyOptions struct {
	Trust Trust
	// Config is the operator's, of a policy.
	Config json.RawMessage
	// Calls is how many calls the memory of the module is watched for; zero means
	// DefaultVerifyCalls.
	Calls int
	Log   hclog.Logger
}

// DefaultVerifyCalls is what VerifyOptions.Calls means by zero: Go guests that leak
// end after a few hundred thousand.
const DefaultVerifyCalls = 1_000_000

// VerifyCheck is one thing that was looked at.
type VerifyCheck struct {
	Name string `json:"name"`
	OK   bool   `json:"ok"`
	// Skipped says that it was left out; Detail is why.
	Skipped bool `json:"skipped,omitempty"`
	// Detail says what was found.
	Detail string        `json:"detail"`
	Took   time.Duration `json:"took_ns"`
}

// VerifyModule looks at a policy or language table as whoever is about to trust it
// would: files and digest, what it imports, whether it answers what it must, whether
// its memory stays flat over many calls, and whether the same calls always use the
// same fuel. It needs no network and no host. The checks end with the first that
// fails; the error is ctx's.
//
// Calls are bounded by their fuel, which depends on nothing but the module and its
// input. Time is judged only where a busy machine is not enough of an explanation: see
// pace.
func VerifyModule(ctx context.Context, dir string, o VerifyOptions) ([]VerifyCheck, error) {
	if o.Calls == 0 {
		o.Calls = DefaultVerifyCalls
	}
	if o.Log == nil {
		o.Log = hclog.NewNullLogger()
	}
	cache, err := os.MkdirTemp("", "caisson-verify-")
	if err != nil {
		return nil, err
	}
	v := &verification{o: o, cache: cache, found: inspect(dir, "", o.Trust), pace: pace{now: time.Now}}
	defer v.close(context.WithoutCancel(ctx))
	for _, c := range []struct {
		name string
		run  func(context.Context) (string, error)
	}{
		{"files", v.files}, {"load", v.load}, {"selftest", v.selftest}, {"answers", v.answers}, {"fuel", v.fuel}, {"memory", v.memory},
	} {
		began := time.Now()
		detail, err := c.run(ctx)
		if ctx.Err() != nil {
			return v.checks, ctx.Err()
		}
		if err != nil {
			detail = err.Error()
		}
		v.checks = append(v.checks, VerifyCheck{Name: c.name, OK: err == nil, Detail: detail, Took: time.Since(began)})
		if err != nil {
			break
		}
	}
	return v.checks, nil
}

// verification is a module under test.
type verification struct {
	o       VerifyOptions
	cache   string // of compiled code: the module is loaded several times
	found   found
	config  json.RawMessage
	modules []*wasm.Module
	pace    pace
	calls   []sample
	checks  []VerifyCheck
}

// sample is a call with what makes its answer right.
type sample struct {
	op    uint32
	input []byte
	check func(reply []byte) error
}

func (v *verification) files(ctx context.Context) (string, error) {
	f := &v.found
	if f.m == nil {
		return "", errors.New(f.status.Cause)
	}
	if f.m.Runtime != manifest.RuntimeWASM {
		return "", errors.New("not a WebAssembly plugin")
	}
	if err := f.verify(ctx); err != nil {
		return "", err
	}
	if f.m.SHA256 == "" {
		return "no digest is pinned", nil
	}
	return "digest " + f.m.SHA256, nil
}

func (v *verification) load(ctx context.Context) (string, error) {
	if v.found.m.Kind == manifest.KindPolicy {
		var err error
		if v.config, err = pluginConfig(v.found, v.o.Config); err != nil {
			return "", err
		}
	}
	m, err := v.fresh(ctx)
	if err != nil {
		return "", err
	}
	i := m.Info()
	return fmt.Sprintf("abi %s, imports %v, stopped by %s", i.ABI, i.Imports, i.Stop), nil
}

// fresh loads the module with one instance, so that calls follow one another in the
// same memory.
func (v *verification) fresh(ctx context.Context) (*wasm.Module, error) {
	spec, err := moduleSpec(v.found, v.o.Log)
	if err != nil {
		return nil, err
	}
	spec.Config, spec.CacheDir, spec.Limits.Instances = v.config, v.cache, 1
	// Fuel that stands for the timeout has to be set before the timeout is another.
	if spec.Limits, err = spec.Limits.Complete(); err != nil {
		return nil, err
	}
	v.pace.timeout = spec.Limits.Timeout
	spec.Limits.Timeout = max(spec.Limits.Timeout, hangTimeout)
	m, err := wasm.Load(ctx, spec)
	if err == nil {
		v.modules = append(v.modules, m)
	}
	return m, err
}

func (v *verification) close(ctx context.Context) {
	for _, m := range v.modules {
		if err := m.Close(ctx); err != nil {
			v.o.Log.Warn("module not closed", "error", err)
		}
	}
	if err := os.RemoveAll(v.cache); err != nil {
		v.o.Log.Warn("temporary directory not removed", "error", err)
	}
}

func (v *verification) selftest(ctx context.Context) (string, error) {
	_, err := v.modules[0].Call(ctx, wasm.OpSelftest, nil, nil)
	return "passed", err
}

// answers makes the samples on the way.
func (v *verification) answers(ctx context.Context) (string, error) {
	if v.found.m.Kind == manifest.KindPolicy {
		v.calls = policySamples(v.found.m)
	} else {
		table, err := listLanguages(ctx, v.modules[0])
		if err != nil {
			return "", err
		}
		v.calls = tableSamples(table)
	}
	for i, s := range v.calls {
		err := v.pace.best(func() error {
			reply, err := v.modules[0].Call(ctx, s.op, s.input, nil)
			if err == nil {
				err = s.check(reply)
			}
			return err
		})
		if err != nil {
			return "", fmt.Errorf("sample %d, %s: %w", i+1, s.input, err)
		}
	}
	return fmt.Sprintf("%d samples answered", len(v.calls)), nil
}

// fuel compares two instances that are asked the same in the same order.
func (v *verification) fuel(ctx context.Context) (string, error) {
	var used [2][]uint64
	for i := range used {
		m, err := v.fresh(ctx)
		if err != nil {
			return "", err
		}
		for range 3 {
			for _, s := range v.calls {
				if _, err := m.Call(ctx, s.op, s.input, nil); err != nil {
					return "", err
				}
				used[i] = append(used[i], m.Stats().Fuel)
			}
		}
	}
	for i := range used[0] {
		if a, b := used[0][i], used[1][i]; a != b {
			err := fmt.Errorf("after %d calls one instance had used %d units of fuel, another %d", i+1, a, b)
			if v.found.m.Deterministic {
				return "", err
			}
			return err.Error() + "; the manifest does not say deterministic", nil
		}
	}
	n := len(used[0])
	return fmt.Sprintf("%d calls used %d units, every time", n, used[0][n-1]), nil
}

// memoryGrowth is how much the highest memory may grow in the second half of the
// calls: a collected heap has settled by then, a leak has not.
const memoryGrowth = 1.1

func (v *verification) memory(ctx context.Context) (string, error) {
	m := v.modules[0]
	var out []byte
	var early int64
	for i := range v.o.Calls {
		if ctx.Err() != nil {
			return "", ctx.Err()
		}
		s := v.calls[i%len(v.calls)]
		err := v.pace.one(func() (err error) {
			out, err = m.Call(ctx, s.op, s.input, out[:0])
			return err
		})
		if err != nil {
			return "", fmt.Errorf("call %d: %w", i+1, err)
		}
		if i == v.o.Calls/2 {
			early = m.Stats().MemoryHighBytes
		}
	}
	st := m.Stats()
	if st.Discards+st.Recycled > 0 || float64(st.MemoryHighBytes) > memoryGrowth*float64(max(early, 1)) {
		return "", fmt.Errorf("%d bytes after %d calls, %d after %d; %d instances were replaced", early, v.o.Calls/2, st.MemoryHighBytes, v.o.Calls, st.Discards+st.Recycled)
	}
	return fmt.Sprintf("%d bytes after %d calls%s", st.MemoryHighBytes, v.o.Calls, v.pace.remark()), nil
}

// policySamples are requests of many shapes, each as a policy with such needs is
// shown it.
func policySamples(m *manifest.Manifest) []sample {
	limits := policy.Limits{WallMS: 30_000, MemoryBytes: 512 << 20, StdoutBytes: 1 << 20, StderrBytes: 1 << 20}
	requests := []policy.Request{
		{Org: "acme", Via: "service_key", Language: "py", Toolchain: "cpython", Code: "print(1)"},
		{Org: "acme", User: "u-1", Via: "bearer", Session: "s", Language: "js", Toolchain: "quickjs", Code: "console.log('ü')", Args: []string{"a b", "ü", ""}},
		{Org: "other", Via: "internal", Language: "bash", Toolchain: "bash", Network: "open", Code: "echo $1", Args: []string{"-n"}},
		{Org: "acme", Via: "bearer", Language: "c", Code: "int main(){}", Files: []policy.File{{Name: "dir/a b.csv", Size: -1}, {Name: "ü", Size: 7}}},
		{Org: "acme", Via: "bearer", Language: "unheard-of"},
		{Org: "\u0000\U0001F600", Via: "bearer", Language: "py", Code: "\u2028\x7f\"\\"},
		{Org: "acme", Via: "bearer", Language: "py", Code: string(make([]byte, 8<<10))},
	}
	var out []sample
	p := boundPolicy{needs: m.Needs}
	for _, r := range requests {
		r.Config, r.Limits, r.CodeBytes = "default", limits, int64(len(r.Code))
		if r.Network == "" {
			r.Network = "none"
		}
		if m.Asks(manifest.HookAdmit) {
			p.show(&r)
			out = append(out, sample{wasm.OpAdmit, r.AppendJSON(nil), func(reply []byte) error {
				_, err := policy.DecodeVerdict(reply)
				return err
			}})
		}
		if !m.Asks(manifest.HookResult) {
			continue
		}
		for _, o := range []policy.Outcome{
			{Stop: "exit", Stdout: "1\n", StdoutBytes: 2, WallMS: 3, Changed: r.Files},
			{Stop: "timeout", ExitCode: -1, Signal: "SIGKILL", Stderr: string(make([]byte, 1<<10)), StderrBytes: 1 << 20},
		} {
			o.Request = r
			p.hide(&o)
			out = append(out, sample{wasm.OpResult, o.AppendJSON(nil), func(reply []byte) error {
				_, err := policy.DecodeRemarks(reply)
				return err
			}})
		}
	}
	return out
}

// tableSamples plan every language by every toolchain.
func tableSamples(t language.Table) []sample {
	out := []sample{{wasm.OpList, nil, func(reply []byte) error {
		_, err := language.DecodeTable(reply)
		return err
	}}}
	for _, l := range t.Languages {
		for _, toolchain := range l.Toolchains {
			r := language.PlanRequest{Language: l.ID, Toolchain: toolchain}
			out = append(out, sample{wasm.OpPlan, r.AppendJSON(nil), func(reply []byte) error {
				p, err := language.DecodePlan(reply)
				if err == nil {
					err = p.CheckArgs(nil)
				}
				return err
			}})
		}
	}
	return out
}
