package meter

import "math"

// Section numbers of the binary format, in
// https://webassembly.github.io/spec/core/binary/modules.html#sections.
const (
	secCustom    = 0
	secType      = 1
	secImport    = 2
	secFunction  = 3
	secTable     = 4
	secMemory    = 5
	secGlobal    = 6
	secExport    = 7
	secStart     = 8
	secElement   = 9
	secCode      = 10
	secData      = 11
	secDataCount = 12
	secTag       = 13
	numSections  = 14
)

var sectionNames = [numSections]string{
	"custom", "type", "import", "function", "table", "memory", "global", "export",
	"start", "element", "code", "data", "data count", "tag",
}

// sectionOrder is the order in which sections may appear, and do in the result.
var sectionOrder = [...]byte{
	secType, secImport, secFunction, secTable, secMemory, secGlobal, secExport,
	secStart, secElement, secDataCount, secCode, secData,
}

// Kinds of imports and exports.
const (
	kindFunction = 0
	kindTable    = 1
	kindMemory   = 2
	kindGlobal   = 3
	kindTag      = 4
)

const header = "\x00asm\x01\x00\x00\x00"

// span is a part of the module by its offsets.
type span struct{ start, end int }

// customSection is a custom section and the place it has among the others.
type customSection struct {
	name string
	// content is what follows the name.
	content span
	// after is how many of sectionOrder come before it.
	after int
}

// limits are the bounds of a memory in pages, or of a table in elements.
type limits struct {
	min, max uint32
	bounded  bool
}

type funcType struct{ params, results []byte }

type importEntry struct {
	module, name string
	kind         byte
	// index is the function's type.
	index uint32
	// desc is the description of anything else, as it was.
	desc span
}

type table struct {
	elem byte
	limits
}

type global struct {
	typ     byte
	mutable bool
	// known says that value is what an immutable i32 is initialised with.
	known bool
	value int32
}

// module is what is known of the input before its code is read.
type module struct {
	data     []byte
	limits   Limits
	sections [numSections]*span
	custom   []customSection

	types   []funcType
	imports []importEntry
	// The index spaces: how many of each there are, imported ones first.
	importedFuncs, funcs uint32
	importedTables       int
	tables               []table
	memories             []limits
	importedMemories     int
	importedGlobals      int
	globals              []global
	// importTypes are the types of imported functions, functionTypes those of the
	// functions with code.
	importTypes, functionTypes []uint32
	// elements holds the length of each element segment.
	elements []uint32
	// data segments, see segments.go.
	segments  []segment
	dataCount uint32
}

// reader reads section id, which must be there.
func (m *module) reader(id byte) *reader {
	s := m.sections[id]
	return &reader{data: m.data, pos: s.start, end: s.end, section: sectionNames[id], function: -1}
}

// parse reads everything but the code.
func parse(data []byte, lim Limits) (*module, error) {
	if len(data) > lim.ModuleBytes {
		return nil, &Error{Reason: ErrLimit, Function: -1, Offset: -1, Detail: sizeDetail(len(data), lim.ModuleBytes)}
	}
	if len(data) < len(header) || string(data[:len(header)]) != header {
		return nil, &Error{Reason: ErrMalformed, Function: -1, Offset: 0, Detail: "not a core module of version 1"}
	}
	m := &module{data: data, limits: lim}
	if err := m.split(); err != nil {
		return nil, err
	}
	for _, part := range []struct {
		id   byte
		read func(*reader)
	}{
		{secType, m.readTypes},
		{secImport, m.readImports},
		{secFunction, m.readFunctions},
		{secTable, m.readTables},
		{secMemory, m.readMemories},
		{secGlobal, m.readGlobals},
		{secElement, func(r *reader) { m.readElements(r, nil, nil) }},
		{secDataCount, m.readDataCount},
		{secData, m.readData},
	} {
		if m.sections[part.id] == nil {
			continue
		}
		r := m.reader(part.id)
		part.read(r)
		r.done()
		if r.err != nil {
			return nil, r.err
		}
	}
	if m.sections[secData] == nil && m.dataCount != 0 {
		return nil, &Error{Reason: ErrMalformed, Section: sectionNames[secDataCount], Function: -1, Offset: -1, Detail: "without a data section"}
	}
	return m, nil
}

// split finds the sections. Known ones come at most once and in order.
func (m *module) split() error {
	r := &reader{data: m.data, pos: len(header), end: len(m.data), section: "custom", function: -1}
	next := 0 // position in sectionOrder
	for r.more() {
		at := r.pos
		id := r.byte()
		size := r.u32()
		start := r.skip(size)
		if r.err != nil {
			r.err.Section = ""
			return r.err
		}
		body := &span{start, r.pos}
		switch {
		case id == secCustom:
			c := &reader{data: m.data, pos: body.start, end: body.end, section: "custom", function: -1}
			name := c.name()
			if c.err != nil {
				return c.err
			}
			if len(m.custom) >= maxCustomSections {
				c.fail(at, ErrLimit, "more than %d custom sections", maxCustomSections)
				return c.err
			}
			m.custom = append(m.custom, customSection{name, span{c.pos, c.end}, next})
			continue
		case id == secTag:
			r.section = sectionNames[id]
			r.fail(at, ErrUnsupported, "tags (exception handling)")
			return r.err
		case id >= numSections:
			r.section = ""
			r.malformed(at, "section %d does not exist", id)
			return r.err
		}
		for next < len(sectionOrder) && sectionOrder[next] != id {
			next++
		}
		if next == len(sectionOrder) {
			r.section = sectionNames[id]
			r.malformed(at, "comes twice or out of order")
			return r.err
		}
		m.sections[id] = body
		next++
	}
	return nil
}

// typeOf returns the type of a function; everything read of it has been checked.
func (m *module) typeOf(f uint32) *funcType {
	if f >= m.importedFuncs {
		return &m.types[m.functionTypes[f-m.importedFuncs]]
	}
	return &m.types[m.importTypes[f]]
}

// width is how many values a call takes and returns.
func (t *funcType) width() int { return len(t.params) + len(t.results) }

func (m *module) readTypes(r *reader) {
	for range r.count(3, m.limits.Types, "types") {
		at := r.pos
		if form := r.byte(); r.err == nil && form != 0x60 {
			r.fail(at, ErrUnsupported, "type of form %#x (garbage collection)", form)
		}
		m.types = append(m.types, funcType{r.valueTypes("parameters"), r.valueTypes("results")})
		if r.err != nil {
			return
		}
	}
}

// valueTypes reads the parameters or results of a function type.
func (r *reader) valueTypes(what string) []byte {
	n := r.count(1, maxParams, what)
	start := r.pos
	for range n {
		r.valueType()
	}
	if r.err != nil {
		return nil
	}
	return r.data[start:r.pos:r.pos]
}

func (m *module) readImports(r *reader) {
	for range r.count(4, m.limits.Imports, "imports") {
		im := importEntry{module: r.name(), name: r.name()}
		at := r.pos
		im.kind = r.byte()
		im.desc.start = r.pos
		switch im.kind {
		case kindFunction:
			im.index = r.index(uint32(len(m.types)), "type")
			m.importTypes = append(m.importTypes, im.index)
			m.importedFuncs++
		case kindTable:
			m.tables = append(m.tables, table{r.refType(), r.limits()})
			m.importedTables++
		case kindMemory:
			m.memories = append(m.memories, r.limits())
			m.importedMemories++
		case kindGlobal:
			m.globals = append(m.globals, r.globalType())
			m.importedGlobals++
		case kindTag:
			r.fail(at, ErrUnsupported, "import of a tag (exception handling)")
		default:
			r.malformed(at, "import of kind %#x", im.kind)
		}
		if r.err != nil {
			return
		}
		im.desc.end = r.pos
		m.imports = append(m.imports, im)
	}
	m.funcs = m.importedFuncs
}

func (m *module) readFunctions(r *reader) {
	n := r.count(1, m.limits.Functions, "functions")
	m.functionTypes = make([]uint32, n)
	for i := range m.functionTypes {
		m.functionTypes[i] = r.index(uint32(len(m.types)), "type")
	}
	m.funcs += n
}

func (m *module) readTables(r *reader) {
	for range r.count(3, maxTables, "tables") {
		m.tables = append(m.tables, table{r.refType(), r.limits()})
	}
}

func (m *module) readMemories(r *reader) {
	at := r.pos
	for range r.count(2, math.MaxUint32, "memories") {
		m.memories = append(m.memories, r.limits())
	}
	if len(m.memories) > 1 {
		r.fail(at, ErrUnsupported, "more than one memory (multi-memory)")
	}
}

func (r *reader) globalType() global {
	g := global{typ: r.valueType()}
	at := r.pos
	mutable := r.byte()
	if r.err == nil && mutable > 1 {
		r.malformed(at, "mutability %#x", mutable)
	}
	g.mutable = mutable == 1
	return g
}

func (m *module) readGlobals(r *reader) {
	for range r.count(4, m.limits.Globals, "globals") {
		g := r.globalType()
		value, known := m.constExpr(r, nil, nil)
		if r.err != nil {
			return
		}
		if known && !g.mutable && g.typ == i32Type {
			g.value, g.known = value, true
		}
		m.globals = append(m.globals, g)
	}
}
