package wasm

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"

	"github.com/caisson-run/caisson/sdk/guest/abi"
)

// Entry points of a Rego policy, as "opa build -e" takes them.
const (
	EntryVerdict = "caisson/verdict" // answers OpAdmit
	EntryRemarks = "caisson/remarks" // answers OpResult
)

// The interface of a compiled Rego policy, see
// https://www.openpolicyagent.org/docs/wasm. Memory belongs to the host there; it is
// given to the module, see adoptMemory.
const (
	envModule     = "env"
	opaMajor      = 1
	opaLeastMinor = 1 // the first that entry points have
)

// conventionOPA is how a host and a module made by "opa build -t wasm" talk. Nothing
// outlives an evaluation: its heap begins at the same place each time.
type conventionOPA struct {
	bundle bundle // without the module
	// text is the document "data" as JSON, for all instances. The first makes it.
	once sync.Once
	text []byte
	err  error
}

func (c *conventionOPA) unpack(data []byte) (_ []byte, err error) {
	if c.bundle, err = unpackBundle(data); err != nil {
		return nil, err
	}
	module := c.bundle.module
	c.bundle.module = nil
	return adoptMemory(module)
}

// document is what the policy sees as data, as JSON. config is the same each time.
func (c *conventionOPA) document(config []byte) ([]byte, error) {
	c.once.Do(func() {
		c.text, c.err = c.bundle.document(config)
		c.bundle.data = nil
	})
	return c.text, c.err
}

func (*conventionOPA) grants(_ *Spec, im moduleImport) error {
	if im.module == envModule {
		for _, f := range envFunctions {
			if f.name == im.name {
				return nil
			}
		}
	}
	return fmt.Errorf("%w: module imports %s.%s, which no module made by opa does", ErrRefused, im.module, im.name)
}

func (*conventionOPA) check(compiled wazero.CompiledModule) error {
	if err := checkMemory(compiled); err != nil {
		return err
	}
	const i32 = api.ValueTypeI32
	one, two := []api.ValueType{i32}, []api.ValueType{i32, i32}
	return checkExported(
		compiled,
		exported{"opa_malloc", one, one, false},
		exported{"opa_json_parse", two, one, false},
		exported{"opa_json_dump", one, one, false},
		exported{"opa_heap_ptr_get", nil, one, false},
		exported{"opa_heap_ptr_set", one, nil, false},
		exported{"opa_eval_ctx_new", nil, one, false},
		exported{"opa_eval_ctx_set_input", two, nil, false},
		exported{"opa_eval_ctx_set_data", two, nil, false},
		exported{"opa_eval_ctx_set_entrypoint", two, nil, false},
		exported{"eval", one, one, false},
		exported{"opa_eval_ctx_get_result", one, one, false},
		exported{"builtins", nil, one, false},
		exported{"entrypoints", nil, one, false},
	)
}

func (*conventionOPA) port() port { return &portOPA{} }

func (*conventionOPA) version(v uint32) string { return fmt.Sprintf("opa %d.%d", v>>16, v&0xffff) }

func (c *conventionOPA) revision() string { return c.bundle.revision }

// portOPA talks to one instance.
type portOPA struct {
	malloc, parse, dump, setHeap                          api.Function
	newContext, setInput, setData, setEntry, eval, result api.Function
	// builtins are the functions of the host that the policy calls, by number, and
	// entries the numbers of its entry points.
	builtins map[int32]builtin
	entries  map[string]int32
	// data is the address of the document "data", base where the heap of an
	// evaluation begins.
	data, base uint32
	// evaluating is set while eval runs and inBuiltin while a function of the host
	// does: the host calls guest code from there, and a function of a guest that is
	// entered a second time corrupts its own frames.
	evaluating, inBuiltin bool
	// stack carries parameters and results, so that a call allocates nothing, and
	// nested those of calls during an evaluation.
	stack, nested [2]uint64
}

func (p *portOPA) open(ctx context.Context, in *instance) error {
	major, minor := global(in.mod, "opa_wasm_abi_version"), global(in.mod, "opa_wasm_abi_minor_version")
	if major != opaMajor || minor < opaLeastMinor {
		return fmt.Errorf("%w: module speaks version %d.%d of OPA's ABI, this host speaks %d.%d and later: build it with a newer opa",
			ErrRefused, major, minor, opaMajor, opaLeastMinor)
	}
	f := in.mod.ExportedFunction
	p.malloc, p.parse, p.dump, p.setHeap = f("opa_malloc"), f("opa_json_parse"), f("opa_json_dump"), f("opa_heap_ptr_set")
	p.newContext, p.setInput, p.setData = f("opa_eval_ctx_new"), f("opa_eval_ctx_set_input"), f("opa_eval_ctx_set_data")
	p.setEntry, p.eval, p.result = f("opa_eval_ctx_set_entrypoint"), f("eval"), f("opa_eval_ctx_get_result")
	var functions map[string]int32
	if err := p.ask(ctx, in, f("builtins"), &functions); err != nil {
		return err
	}
	p.builtins = make(map[int32]builtin, len(functions))
	for name, id := range functions {
		b, ok := builtins[name]
		if !ok {
			return fmt.Errorf("%w: the policy calls %s, which is neither compiled into it nor offered by this host", ErrRefused, name)
		}
		p.builtins[id] = b
	}
	if err := p.ask(ctx, in, f("entrypoints"), &p.entries); err != nil {
		return err
	}
	_, verdict := p.entries[EntryVerdict]
	_, remarks := p.entries[EntryRemarks]
	if !verdict && !remarks {
		return fmt.Errorf("%w: the policy has neither of the entry points %s and %s: opa build -t wasm -e %s", ErrRefused, EntryVerdict, EntryRemarks, EntryVerdict)
	}
	in.m.version.Store(uint32(major)<<16 | uint32(minor))
	return p.load(ctx, in, f("opa_heap_ptr_get"))
}

// load places the document "data", for good.
func (p *portOPA) load(ctx context.Context, in *instance, heap api.Function) error {
	text, err := in.m.convention.(*conventionOPA).document(in.m.spec.Config)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrRefused, err)
	}
	if p.data, err = p.value(ctx, in, text); err != nil {
		return err
	}
	p.base, err = run(ctx, heap, &p.stack)
	return err
}

// configure has nothing left to do: open has placed the configuration.
func (*portOPA) configure(context.Context, *instance) failure { return failure{} }

func (p *portOPA) invoke(ctx context.Context, in *instance, op uint32, input, out []byte) ([]byte, failure) {
	entry := ""
	switch op {
	case OpDescribe:
		return p.describe(in, out)
	case OpSelftest:
		return out, failure{} // opening it was one
	case OpAdmit:
		entry = EntryVerdict
	case OpResult:
		entry = EntryRemarks
	}
	id, ok := p.entries[entry]
	if !ok {
		return out, failure{ReasonGuest, &abi.Error{Code: abi.CodeUnsupportedOp, Message: "this policy does not serve " + abi.Op(op).String()}}
	}
	return p.evaluate(ctx, in, id, input, out)
}

func (p *portOPA) describe(in *instance, out []byte) ([]byte, failure) {
	text, err := json.Marshal(map[string]any{"entrypoints": p.entries, "revision": in.m.convention.revision(), "sdk": "opa"})
	if err != nil {
		return out, failure{ReasonBadOutput, err}
	}
	return append(out, text...), failure{}
}

// evaluate asks an entry point. There is a function that does all of this at once,
// opa_eval, but what is not JSON to it is an input that is not there, about which a
// policy may well say "allow".
func (p *portOPA) evaluate(ctx context.Context, in *instance, entry int32, input, out []byte) ([]byte, failure) {
	p.evaluating, p.inBuiltin = false, false
	if _, err := run(ctx, p.setHeap, &p.stack, p.base); err != nil {
		return out, failure{ReasonTrap, err}
	}
	value, err := p.value(ctx, in, input)
	if errors.Is(err, errNotJSON) {
		return out, failure{ReasonGuest, &abi.Error{Code: abi.CodeBadInput, Message: err.Error()}}
	}
	if err != nil {
		return out, failure{ReasonTrap, err}
	}
	frame, err := run(ctx, p.newContext, &p.stack)
	for _, set := range [...]struct {
		f     api.Function
		value uint32
	}{{p.setInput, value}, {p.setData, p.data}, {p.setEntry, uint32(entry)}} {
		if err == nil {
			_, err = run(ctx, set.f, &p.stack, frame, set.value)
		}
	}
	if err == nil {
		p.evaluating = true
		_, err = run(ctx, p.eval, &p.stack, frame)
		p.evaluating = false
	}
	if err == nil {
		value, err = run(ctx, p.result, &p.stack, frame)
	}
	if err == nil {
		value, err = run(ctx, p.dump, &p.stack, value)
	}
	if err != nil {
		return out, failure{ReasonTrap, err}
	}
	text, err := readText(in, value, in.m.spec.Limits.OutputBytes+int64(len(resultHead)+len(resultTail)))
	if err != nil {
		return out, failure{ReasonBadOutput, err}
	}
	// An entry point is a query with one result, or with none.
	if string(text) == "[]" {
		return out, failure{ReasonGuest, &abi.Error{Code: "undefined", Message: "the policy says nothing about this input: give its rule a default"}}
	}
	body, head := bytes.CutPrefix(text, []byte(resultHead))
	body, tail := bytes.CutSuffix(body, []byte(resultTail))
	if !head || !tail {
		return out, failure{ReasonBadOutput, errors.New("the policy's answer is not a set with one result")}
	}
	return append(out, body...), failure{}
}

const (
	resultHead = `[{"result":`
	resultTail = `}]`
)

// ask decodes what a function without parameters returns.
func (p *portOPA) ask(ctx context.Context, in *instance, f api.Function, v any) error {
	value, err := run(ctx, f, &p.stack)
	if err != nil {
		return err
	}
	text, err := p.text(ctx, in, value)
	if err != nil {
		return err
	}
	return json.Unmarshal(text, v)
}

// text is a value of the policy as JSON, a view that is valid until guest code runs.
func (p *portOPA) text(ctx context.Context, in *instance, value uint32) ([]byte, error) {
	at, err := run(ctx, p.dump, &p.nested, value)
	if err != nil {
		return nil, err
	}
	return readText(in, at, in.m.spec.Limits.InputBytes)
}

// value makes a value of the policy out of JSON.
func (p *portOPA) value(ctx context.Context, in *instance, text []byte) (uint32, error) {
	at, err := run(ctx, p.malloc, &p.nested, uint32(len(text)))
	if err != nil {
		return 0, err
	}
	if !in.mem.Write(at, text) {
		return 0, fmt.Errorf("opa_malloc puts %d bytes at %d, outside of the memory of %d", len(text), at, in.mem.Size())
	}
	value, err := run(ctx, p.parse, &p.nested, at, uint32(len(text)))
	if err == nil && value == 0 {
		err = errNotJSON
	}
	return value, err
}

var errNotJSON = errors.New("the policy does not take the input for JSON")

// run calls a function of addresses and numbers; its result, if it has one, is one.
func run(ctx context.Context, f api.Function, stack *[2]uint64, args ...uint32) (uint32, error) {
	for i, a := range args {
		stack[i] = uint64(a)
	}
	err := f.CallWithStack(ctx, stack[:])
	return uint32(stack[0]), err
}

// readText is the text at an address that ends with a zero byte.
func readText(in *instance, at uint32, most int64) ([]byte, error) {
	have := int64(in.mem.Size()) - int64(at)
	if have <= 0 {
		return nil, fmt.Errorf("text at %d is outside of the memory of %d", at, in.mem.Size())
	}
	view, _ := in.mem.Read(at, uint32(min(have, most+1)))
	n := bytes.IndexByte(view, 0)
	switch {
	case n >= 0:
		return view[:n], nil
	case have > most:
		return nil, fmt.Errorf("text is longer than %d bytes", most)
	}
	return nil, errors.New("text does not end within the memory")
}

func global(mod api.Module, name string) int32 {
	if g := mod.ExportedGlobal(name); g != nil {
		return int32(g.Get())
	}
	return 0
}
