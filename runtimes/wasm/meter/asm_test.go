package meter

// assembler makes small modules, so that every shape a test needs is in the test.
type assembler struct {
	types     []funcType
	imports   []buffer
	functions []uint32
	bodies    []buffer
	tables    []buffer
	memory    buffer
	globals   []buffer
	exports   []buffer
	start     int // plus one
	elements  []buffer
	data      []buffer
	count     bool // whether there is a data count section
	custom    []buffer
	imported  uint32 // functions
}

// valueTypesOf reads a signature: i, l, f, d for the numbers of 32 and 64 bits, v
// for a vector, r and e for references.
func valueTypesOf(s string) []byte {
	out := []byte{}
	for _, c := range s {
		out = append(out, map[rune]byte{
			'i': i32Type, 'l': i64Type, 'f': f32Type, 'd': f64Type, 'v': v128Type, 'r': funcref, 'e': externref,
		}[c])
	}
	return out
}

func (a *assembler) typ(params, results string) uint32 {
	a.types = append(a.types, funcType{valueTypesOf(params), valueTypesOf(results)})
	return uint32(len(a.types) - 1)
}

func entry(write func(*buffer)) buffer {
	var b buffer
	write(&b)
	return b
}

// importFunc has to come before all functions.
func (a *assembler) importFunc(module, name, params, results string) uint32 {
	t := a.typ(params, results)
	a.imports = append(a.imports, entry(func(b *buffer) { b.name(module); b.name(name); b.op(kindFunction); b.u32(t) }))
	a.imported++
	return a.imported - 1
}

// fn adds a function; the last end of the body is added.
func (a *assembler) fn(params, results, locals string, body func(*buffer)) uint32 {
	a.functions = append(a.functions, a.typ(params, results))
	a.bodies = append(a.bodies, entry(func(b *buffer) {
		types := valueTypesOf(locals)
		b.u32(uint32(len(types)))
		for _, t := range types {
			b.u32(1)
			b.op(t)
		}
		body(b)
		b.op(opEnd)
	}))
	return a.imported + uint32(len(a.functions)) - 1
}

func (a *assembler) export(name string, kind byte, index uint32) {
	a.exports = append(a.exports, entry(func(b *buffer) { b.name(name); b.op(kind); b.u32(index) }))
}

// exportFn adds a function and exports it.
func (a *assembler) exportFn(name, params, results, locals string, body func(*buffer)) uint32 {
	f := a.fn(params, results, locals, body)
	a.export(name, kindFunction, f)
	return f
}

func (a *assembler) mem(least, most uint32) {
	a.memory = entry(func(b *buffer) { b.limits(limits{min: least, max: most, bounded: most > 0}) })
	a.export("memory", kindMemory, 0)
}

func (a *assembler) table(elem byte, least, most uint32) {
	a.tables = append(a.tables, entry(func(b *buffer) {
		b.op(elem)
		b.limits(limits{min: least, max: most, bounded: most > 0})
	}))
}

func (a *assembler) passive(data []byte) {
	a.data = append(a.data, entry(func(b *buffer) { b.op(1); b.sized(data) }))
}

func (a *assembler) active(offset int32, data []byte) {
	a.data = append(a.data, entry(func(b *buffer) { b.op(0); b.i32(offset); b.op(opEnd); b.sized(data) }))
}

func (a *assembler) bytes() []byte {
	out := buffer(header)
	section := func(id byte, b buffer) { out.op(id); out.sized(b) }
	vector := func(id byte, list []buffer) {
		if len(list) == 0 {
			return
		}
		section(id, entry(func(b *buffer) {
			b.u32(uint32(len(list)))
			for _, e := range list {
				b.raw(e)
			}
		}))
	}
	var types, functions, bodies []buffer
	for _, t := range a.types {
		types = append(types, entry(func(b *buffer) { b.op(0x60); b.sized(t.params); b.sized(t.results) }))
	}
	for _, t := range a.functions {
		functions = append(functions, entry(func(b *buffer) { b.u32(t) }))
	}
	for _, c := range a.bodies {
		bodies = append(bodies, entry(func(b *buffer) { b.sized(c) }))
	}
	vector(secType, types)
	vector(secImport, a.imports)
	vector(secFunction, functions)
	vector(secTable, a.tables)
	if a.memory != nil {
		vector(secMemory, []buffer{a.memory})
	}
	vector(secGlobal, a.globals)
	vector(secExport, a.exports)
	if a.start > 0 {
		section(secStart, entry(func(b *buffer) { b.u32(uint32(a.start - 1)) }))
	}
	vector(secElement, a.elements)
	if a.count {
		section(secDataCount, entry(func(b *buffer) { b.u32(uint32(len(a.data))) }))
	}
	vector(secCode, bodies)
	vector(secData, a.data)
	for _, c := range a.custom {
		section(secCustom, c)
	}
	return out
}
