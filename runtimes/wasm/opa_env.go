package wasm

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	bignum "math/big"
	"regexp"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
)

// envFunctions are what a module made by opa may import, with their numbers of
// parameters and results, all of type i32.
var envFunctions = []struct {
	name            string
	params, results int
	call            api.GoModuleFunc
}{
	{"opa_abort", 1, 0, envAbort},
	{"opa_println", 1, 0, envPrint},
	{"opa_builtin0", 2, 1, envBuiltin(0)},
	{"opa_builtin1", 3, 1, envBuiltin(1)},
	{"opa_builtin2", 4, 1, envBuiltin(2)},
	{"opa_builtin3", 5, 1, envBuiltin(3)},
	{"opa_builtin4", 6, 1, envBuiltin(4)},
}

func (*conventionOPA) provide(ctx context.Context, _ *Module, rt wazero.Runtime) error {
	b := rt.NewHostModuleBuilder(envModule)
	for _, f := range envFunctions {
		types := bytes.Repeat([]byte{api.ValueTypeI32}, f.params)
		b = b.NewFunctionBuilder().WithGoModuleFunction(f.call, types, types[:f.results]).Export(f.name)
	}
	if _, err := b.Instantiate(ctx); err != nil {
		return fmt.Errorf("%s: %w", envModule, err)
	}
	return nil
}

// maxAbortBytes bounds what is told of why a policy gave up.
const maxAbortBytes = 1 << 10

// envAbort ends an evaluation that cannot go on: two rules disagree, for example.
func envAbort(ctx context.Context, _ api.Module, stack []uint64) {
	text, err := readText(instanceOf(ctx), uint32(stack[0]), maxAbortBytes)
	if err != nil {
		panic(fmt.Errorf("abort: %w", err))
	}
	panic(errors.New("abort: " + printable(text)))
}

// envPrint is Rego's print.
func envPrint(ctx context.Context, _ api.Module, stack []uint64) {
	const info = 3
	in := instanceOf(ctx)
	text, err := readText(in, uint32(stack[0]), maxLogBytes)
	if err != nil {
		panic(fmt.Errorf("print: %w", err))
	}
	in.m.guestLog.write(info, text, false)
	in.look()
}

// envBuiltin calls a function of the host: its number, a context without meaning
// here, and addresses of values. The result is the address of a value, or 0 for
// undefined. It calls functions of the guest that must not be active already, so it is
// only for eval, and not for those it calls itself.
func envBuiltin(arity int) api.GoModuleFunc {
	return func(ctx context.Context, _ api.Module, stack []uint64) {
		in := instanceOf(ctx)
		p, ok := in.port.(*portOPA)
		if !ok {
			panic(errors.New("builtin: not a policy"))
		}
		if !p.evaluating || p.inBuiltin {
			panic(errors.New("builtin: called by something else than eval"))
		}
		p.inBuiltin = true
		defer func() { p.inBuiltin = false }()
		call, ok := p.builtins[int32(stack[0])]
		if !ok || call.arity != arity {
			panic(fmt.Errorf("builtin: no function %d of %d arguments", int32(stack[0]), arity))
		}
		args := make([]any, arity)
		for i := range args {
			text, err := p.text(ctx, in, uint32(stack[2+i]))
			if err == nil {
				args[i], err = decodeValue(text)
			}
			if err != nil {
				panic(fmt.Errorf("builtin: argument %d: %w", i+1, err))
			}
		}
		result, err := call.do(args)
		if err != nil {
			panic(fmt.Errorf("%s: %w", call.name, err))
		}
		stack[0] = 0
		if result != nil {
			text, err := json.Marshal(result)
			if err != nil {
				panic(fmt.Errorf("%s: %w", call.name, err))
			}
			at, err := p.value(ctx, in, text)
			if err != nil {
				panic(err)
			}
			stack[0] = uint64(at)
		}
		in.look()
	}
}

// decodeValue keeps numbers as they are written.
func decodeValue(text []byte) (v any, err error) {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	return v, d.Decode(&v)
}

// builtin is a function of Rego that opa does not compile into modules. The result
// nil is undefined; an error ends the evaluation.
type builtin struct {
	name  string
	arity int
	do    func(args []any) (any, error)
}

// builtins are those that this host offers: what depends on nothing but its
// arguments and is in every other policy. The rest of Rego's library is refused by
// name when a policy is loaded.
var builtins = map[string]builtin{"sprintf": {"sprintf", 2, regoSprintf}}

// Bounds on what a policy may have formatted: nothing meters the host.
const (
	maxVerbs = 64
	maxWidth = 1000
)

var verb = regexp.MustCompile(`%[-+# 0]*(\d*)(?:\.(\d*))?(.?)`)

// regoSprintf is sprintf(format, values), by fmt's verbs. Composite values are
// written as JSON.
func regoSprintf(args []any) (any, error) {
	format, ok := args[0].(string)
	list, ok2 := args[1].([]any)
	if !ok || !ok2 {
		return nil, nil
	}
	verbs := verb.FindAllStringSubmatch(format, maxVerbs+1)
	if len(verbs) > maxVerbs || len(list) > maxVerbs {
		return nil, fmt.Errorf("more than %d values", maxVerbs)
	}
	for _, v := range verbs {
		if v[3] == "*" || v[3] == "[" || tooWide(v[1]) || tooWide(v[2]) {
			return nil, fmt.Errorf("%s: widths are numbers of at most %d, and arguments are taken in order", v[0], maxWidth)
		}
	}
	values := make([]any, len(list))
	for i, v := range list {
		values[i] = printed(v)
	}
	return fmt.Sprintf(format, values...), nil
}

func tooWide(digits string) bool {
	var n int
	for _, d := range digits {
		if n = n*10 + int(d-'0'); n > maxWidth {
			return true
		}
	}
	return false
}

// printed is a value as fmt is to see it.
func printed(v any) any {
	switch v := v.(type) {
	case string:
		return v
	case json.Number:
		if n, err := v.Int64(); err == nil {
			return n
		}
		if len(v) < maxWidth { // nothing meters it, and it takes the square of the length
			if n, ok := new(bignum.Int).SetString(v.String(), 10); ok {
				return n
			}
		}
		f, err := v.Float64()
		if err != nil {
			return v.String()
		}
		return f
	}
	text, err := json.Marshal(v)
	if err != nil {
		return err.Error()
	}
	return string(text)
}
