package meter

import "strings"

// Result is a rewritten module.
type Result struct {
	// Module is the binary. It shares no memory with the input.
	Module []byte
	// Data are the data segments that were dropped, in their order; a later one may
	// overlap an earlier one.
	Data []Segment
	// Report counts what was done.
	Report Report
}

// Report counts what Rewrite found and changed.
type Report struct {
	// Functions is how many functions with code the module has, and Loops how many
	// loops control can reach in them.
	Functions, Loops int
	// Charges is how many places take fuel off the counter.
	Charges int
	// BulkOps is how many bulk and growing instructions are metered, and GrowOps how
	// many of them grow a memory or table.
	BulkOps, GrowOps int
	// Helpers is how many functions were appended.
	Helpers int
	// SizeBefore and SizeAfter are in bytes.
	SizeBefore, SizeAfter int
}

// Rewrite returns module as opts say, or an [*Error]. The same input gives the
// same output. It keeps no reference to module but for Result.Data, and may be
// called from several goroutines at once.
func Rewrite(module []byte, opts Options) (*Result, error) {
	opts.Limits = opts.Limits.withDefaults()
	m, err := parse(module, opts.Limits)
	if err != nil {
		return nil, err
	}
	w := &rewriter{module: m, options: opts, result: &Result{}}
	if err := w.prepare(); err != nil {
		return nil, err
	}
	if err := w.write(); err != nil {
		return nil, err
	}
	w.result.Report.Helpers = len(w.helpers.keys)
	w.result.Report.SizeBefore = len(module)
	w.result.Report.SizeAfter = len(w.result.Module)
	return w.result, nil
}

// rewriter writes one module.
type rewriter struct {
	module  *module
	options Options
	result  *Result

	// shift is what is added to the index of functions that are not imported.
	shift uint32
	// shims replace imported functions, by index.
	shims    map[uint32]uint32
	callback callback
	// counter is the index of the fuel counter.
	counter  uint32
	helpers  helpers
	usesData bool
	// quiet holds what a call of each function with code costs at most, or 0 if that
	// is not known.
	quiet []int32

	plan    plan
	work    work
	edits   []edit
	scratch buffer
}

// callback is the function that is called when a slice is spent.
type callback struct {
	function        uint32
	params, results []byte
	args            []int64
}

// remap returns the index in the result of a function of the input.
func (w *rewriter) remap(f uint32) uint32 {
	if f >= w.module.importedFuncs {
		return f + w.shift
	}
	if s, ok := w.shims[f]; ok {
		return s
	}
	return f
}

// prepare checks the options against the module and lays out the result.
func (w *rewriter) prepare() error {
	m := w.module
	if err := w.reserved(); err != nil {
		return err
	}
	w.counter = uint32(len(m.globals))
	if f := w.options.Fuel; f != nil {
		if f.Seed < 0 {
			return optionError("a counter cannot start with %d", f.Seed)
		}
		if f.Own == nil {
			w.shift = 1
			w.callback.function = m.importedFuncs
		} else if err := w.own(f.Own); err != nil {
			return err
		}
	}
	w.helpers = helpers{
		first:     m.funcs + w.shift,
		firstType: uint32(len(m.types)),
		known:     map[helper]uint32{},
	}
	if w.options.Unstable {
		return w.shimUnstable()
	}
	return nil
}

// own finds the callback among the module's imports.
func (w *rewriter) own(o *Own) error {
	function := uint32(0)
	for _, im := range w.module.imports {
		if im.kind != kindFunction {
			continue
		}
		if im.module == o.Module && im.name == o.Name {
			t := w.module.types[im.index]
			for _, p := range t.params {
				if p != i32Type && p != i64Type {
					return optionError("%s.%s cannot be the slice callback: it has a parameter that is no integer", o.Module, o.Name)
				}
			}
			if len(o.Args) > len(t.params) {
				return optionError("%s.%s cannot be the slice callback: it has %d parameters, not %d", o.Module, o.Name, len(t.params), len(o.Args))
			}
			w.callback = callback{function, t.params, t.results, o.Args}
			return nil
		}
		function++
	}
	return optionError("the module does not import %s.%s, which was to be the slice callback", o.Module, o.Name)
}

// reserved refuses modules that use names of the host.
func (w *rewriter) reserved() error {
	for i, im := range w.module.imports {
		if strings.HasPrefix(im.module, ReservedPrefix) {
			return &Error{
				Reason: ErrReserved, Section: sectionNames[secImport], Function: -1, Offset: -1,
				Detail: "import " + itoa(i) + " is from " + clip(im.module),
			}
		}
	}
	return nil
}

// clip shortens a name of the module's for an error.
func clip(name string) string {
	const most = 64
	if len(name) > most {
		name = name[:most] + "…"
	}
	return strings.ToValidUTF8(name, "\uFFFD")
}
