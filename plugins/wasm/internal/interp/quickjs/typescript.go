package quickjs

import (
	"errors"

	"github.com/caisson-run/caisson/plugins/wasm/internal/interp/typescript"
)

// TypeScript is the value of Argv[0] that makes an entry file TypeScript
// whatever its name.
const TypeScript = "ts"

// stripUnits is the price of compiling a byte of TypeScript.
const stripUnits = 400

// stripped is what opStrip returns. The guest keeps both: they may be large and
// the host's memory is not theirs.
type stripped struct {
	Code     string `json:"code"`
	Mappings string `json:"mappings"` // of the source map
}

// opStrip(source, file) removes types and JSX from a file and returns a
// stripped as JSON, or throws what the compiler says.
func opStrip(v *vm, a args) uint64 {
	file := a.text(1)
	if v.in.typescript == nil {
		return v.throw(file + ": this sandbox has no TypeScript\n")
	}
	source, release := a.span(0)
	if source.n > typescript.MaxSourceBytes {
		release()
		return v.throw(file + ": " + typescript.ErrTooLarge.Error() + "\n")
	}
	v.charge(stripUnits * int64(source.n))
	text := string(v.bytes(source))
	release()
	res, err := v.in.typescript.Transform(v.ctx, file, text)
	switch {
	case v.ctx.Err() != nil:
		panic(abort{v.ctx.Err()})
	case errors.Is(err, typescript.ErrGaveUp):
		return v.throw(file + ": " + err.Error() + "\n")
	case err != nil:
		return v.throw(file + ": the TypeScript compiler could not be started\n")
	case res.Problem != "":
		return v.throw(res.Problem)
	}
	return v.newJSON(stripped{res.Code, res.Mappings})
}

// opPosition(mappings, line, column) returns [line, column] of the source as
// JSON, all counted from 1, or the given ones when the mappings do not say.
func opPosition(v *vm, a args) uint64 {
	mappings, release := a.span(0)
	defer release()
	line, column := originalPosition(v.bytes(mappings), int(a.integer(1)), int(a.integer(2)))
	return v.newJSON([2]int{line, column})
}
