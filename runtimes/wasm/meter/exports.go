package meter

import (
	"fmt"
	"strings"
)

// exports writes the exports of the module, those of the options and that of the
// counter.
func (w *rewriter) exports() (buffer, error) {
	m := w.module
	added := w.options.Exports
	taken := make(map[string]bool, len(added))
	for _, e := range added {
		if taken[e.Name] {
			return nil, optionError("export %q is added twice", e.Name)
		}
		if strings.HasPrefix(e.Name, ReservedPrefix) {
			return nil, optionError("export %q has a reserved name", e.Name)
		}
		taken[e.Name] = true
	}
	n := uint32(len(added))
	if w.options.Fuel != nil {
		n++
	}
	var list buffer
	if m.sections[secExport] != nil {
		r := m.reader(secExport)
		own := r.count(3, m.limits.Exports, "exports")
		n += own
		for range own {
			at := r.pos
			name := r.name()
			kind := r.byte()
			index := m.exported(r, kind)
			if r.err == nil && strings.HasPrefix(name, ReservedPrefix) {
				r.fail(at, ErrReserved, "export %q", clip(name))
			}
			if r.err != nil {
				return nil, r.err
			}
			if taken[name] {
				return nil, optionError("the module already exports %q", name)
			}
			w.export(&list, name, kind, index)
		}
		r.done()
		if r.err != nil {
			return nil, r.err
		}
	}
	for _, e := range added {
		count, ok := m.spaceOf(byte(e.Kind))
		if !ok || e.Index >= count {
			return nil, optionError("export %q is of %s %d, and the module has %d", e.Name, e.Kind, e.Index, count)
		}
		w.export(&list, e.Name, byte(e.Kind), e.Index)
	}
	if w.options.Fuel != nil {
		w.export(&list, CounterExport, kindGlobal, w.counter)
	}
	if n == 0 {
		return nil, nil
	}
	var b buffer
	b.u32(n)
	b.raw(list)
	return b, nil
}

func (w *rewriter) export(b *buffer, name string, kind byte, index uint32) {
	if kind == kindFunction {
		index = w.remap(index)
	}
	b.name(name)
	b.op(kind)
	b.u32(index)
}

// exported reads the index of what is exported.
func (m *module) exported(r *reader, kind byte) uint32 {
	count, ok := m.spaceOf(kind)
	if r.err == nil && !ok {
		r.malformed(r.pos-1, "export of kind %#x", kind)
	}
	return r.index(count, Kind(kind).String())
}

// spaceOf returns how many things of a kind the module has.
func (m *module) spaceOf(kind byte) (count uint32, ok bool) {
	switch kind {
	case kindFunction:
		return m.funcs, true
	case kindTable:
		return uint32(len(m.tables)), true
	case kindMemory:
		return uint32(len(m.memories)), true
	case kindGlobal:
		return uint32(len(m.globals)), true
	}
	return 0, false
}

// String names the kind.
func (k Kind) String() string {
	switch k {
	case Function:
		return "function"
	case Table:
		return "table"
	case Memory:
		return "memory"
	case Global:
		return "global"
	}
	return fmt.Sprintf("kind %#x", byte(k))
}
