package meter

// write writes the sections. The code comes first, because it decides which
// helpers there are.
func (w *rewriter) write() error {
	m := w.module
	var sections [numSections]buffer
	code, err := w.code()
	if err != nil {
		return err
	}
	sections[secDataCount], sections[secData], err = w.data(w.usesData)
	if err != nil {
		return err
	}
	for _, part := range []struct {
		id    byte
		write func() (buffer, error)
	}{
		{secImport, w.imports},
		{secFunction, w.functions},
		{secTable, w.tables},
		{secMemory, w.memories},
		{secGlobal, w.globals},
		{secExport, w.exports},
		{secStart, w.start},
		{secElement, w.elements},
		{secType, w.types},
	} {
		if sections[part.id], err = part.write(); err != nil {
			return err
		}
	}
	sections[secCode] = code

	total := len(header)
	for _, s := range sections {
		total += len(s) + 6
	}
	if total > m.limits.ModuleBytes {
		return &Error{Reason: ErrLimit, Function: -1, Offset: -1, Detail: "rewritten: " + sizeDetail(total, m.limits.ModuleBytes)}
	}
	out := make(buffer, 0, total)
	out.raw([]byte(header))
	custom := m.custom
	for place, id := range sectionOrder {
		custom = w.customs(&out, custom, place)
		if len(sections[id]) > 0 {
			out.op(id)
			out.sized(sections[id])
		}
	}
	w.customs(&out, custom, len(sectionOrder))
	w.result.Module = out
	return nil
}

// code writes the code section: the functions of the module and the helpers.
func (w *rewriter) code() (buffer, error) {
	m := w.module
	defined := m.funcs - m.importedFuncs
	var bodies buffer
	if m.sections[secCode] != nil {
		r := m.reader(secCode)
		bodies = make(buffer, 0, (r.end-r.pos)+(r.end-r.pos)/2)
		n := r.count(1, m.limits.Functions, "bodies")
		if r.err == nil && n != defined {
			r.malformed(r.pos, "%d bodies for %d functions", n, defined)
		}
		if r.err == nil && w.options.Fuel != nil {
			r.err = w.findQuiet(*r, n)
			w.work.start()
		}
		for i := range n {
			if r.err != nil {
				return nil, r.err
			}
			r.function = int(m.importedFuncs + i)
			w.body(r, &bodies)
			if r.err == nil && len(bodies) > m.limits.ModuleBytes {
				r.fail(r.pos, ErrLimit, "rewritten code is more than %d bytes", m.limits.ModuleBytes)
			}
		}
		r.done()
		if r.err != nil {
			return nil, r.err
		}
	} else if defined > 0 {
		return nil, &Error{Reason: ErrMalformed, Section: sectionNames[secCode], Function: -1, Offset: -1, Detail: "missing"}
	}
	// A helper may call for another, which is then appended behind it.
	for i := 0; i < len(w.helpers.keys); i++ {
		bodies.sized(w.helperBody(w.helpers.keys[i]))
	}
	if defined == 0 && len(w.helpers.keys) == 0 {
		return nil, nil
	}
	var out buffer
	out.u32(defined + uint32(len(w.helpers.keys)))
	return append(out, bodies...), nil
}

// types is written last: the other sections may add to it.
func (w *rewriter) types() (buffer, error) {
	m := w.module
	added := w.helpers.types
	if len(m.types)+len(added) == 0 {
		return nil, nil
	}
	var b buffer
	b.u32(uint32(len(m.types) + len(added)))
	for _, list := range [][]funcType{m.types, added} {
		for _, t := range list {
			b.op(0x60)
			b.sized(t.params)
			b.sized(t.results)
		}
	}
	return b, nil
}

func (w *rewriter) imports() (buffer, error) {
	m := w.module
	if len(m.imports) == 0 && w.shift == 0 {
		return nil, nil
	}
	var b buffer
	b.u32(uint32(len(m.imports)) + w.shift)
	for _, im := range m.imports {
		module := im.module
		if w.options.Unstable && module == unstableModule {
			module = preview1Module
		}
		b.name(module)
		b.name(im.name)
		b.op(im.kind)
		b.raw(m.data[im.desc.start:im.desc.end])
	}
	if w.shift > 0 {
		b.name(SliceModule)
		b.name(SliceName)
		b.op(kindFunction)
		b.u32(w.helpers.typeIndex(nil, nil))
	}
	return b, nil
}

func (w *rewriter) functions() (buffer, error) {
	m := w.module
	defined := m.funcs - m.importedFuncs
	added := uint32(len(w.helpers.keys))
	if defined+added == 0 {
		return nil, nil
	}
	var b buffer
	b.u32(defined + added)
	if m.sections[secFunction] != nil {
		r := m.reader(secFunction)
		r.u32()
		b.raw(m.data[r.pos:r.end])
	}
	for _, k := range w.helpers.keys {
		b.u32(w.helpers.typeIndex(w.signature(k)))
	}
	return b, nil
}

func (w *rewriter) tables() (buffer, error) {
	m := w.module
	if m.sections[secTable] == nil {
		return nil, nil
	}
	var b buffer
	b.u32(uint32(len(m.tables) - m.importedTables))
	for i, t := range m.tables[m.importedTables:] {
		if err := capLimits(&t.limits, w.options.MaxTableElements); err != nil {
			err.Section = sectionNames[secTable]
			err.Detail = "table " + itoa(m.importedTables+i) + ": elements: " + err.Detail
			return nil, err
		}
		b.op(t.elem)
		b.limits(t.limits)
	}
	return b, nil
}

func (w *rewriter) memories() (buffer, error) {
	m := w.module
	if m.sections[secMemory] == nil {
		return nil, nil
	}
	var b buffer
	b.u32(uint32(len(m.memories) - m.importedMemories))
	for _, l := range m.memories[m.importedMemories:] {
		if err := capLimits(&l, w.options.MaxMemoryPages); err != nil {
			err.Section = sectionNames[secMemory]
			err.Detail = "pages of memory: " + err.Detail
			return nil, err
		}
		b.limits(l)
	}
	return b, nil
}

// capLimits lowers a maximum to most, or sets it; 0 leaves it.
func capLimits(l *limits, most uint32) *Error {
	if most == 0 {
		return nil
	}
	if l.min > most {
		return &Error{Reason: ErrLimit, Function: -1, Offset: -1, Detail: itoa(int(l.min)) + " at the start are more than " + itoa(int(most))}
	}
	if !l.bounded || l.max > most {
		l.max, l.bounded = most, true
	}
	return nil
}

func (w *rewriter) globals() (buffer, error) {
	m := w.module
	added := uint32(0)
	if w.options.Fuel != nil {
		added = 1
	}
	defined := uint32(len(m.globals) - m.importedGlobals)
	if defined+added == 0 {
		return nil, nil
	}
	var b buffer
	b.u32(defined + added)
	if m.sections[secGlobal] != nil {
		r := m.reader(secGlobal)
		for range r.u32() {
			at := r.pos
			r.globalType()
			b.raw(m.data[at:r.pos])
			m.constExpr(r, &b, w.remap)
		}
	}
	if added > 0 {
		seed := w.options.Fuel.Seed
		if seed == 0 {
			seed = DefaultSeed
		}
		b.op(i64Type, 1)
		b.i64(seed)
		b.op(opEnd)
	}
	return b, nil
}

func (w *rewriter) start() (buffer, error) {
	m := w.module
	if m.sections[secStart] == nil {
		return nil, nil
	}
	r := m.reader(secStart)
	f := r.index(m.funcs, "function")
	r.done()
	if r.err != nil {
		return nil, r.err
	}
	var b buffer
	b.u32(w.remap(f))
	return b, nil
}

func (w *rewriter) elements() (buffer, error) {
	if w.module.sections[secElement] == nil {
		return nil, nil
	}
	var b buffer
	r := w.module.reader(secElement)
	w.module.readElements(r, &b, w.remap)
	if r.err != nil {
		return nil, r.err
	}
	return b, nil
}
