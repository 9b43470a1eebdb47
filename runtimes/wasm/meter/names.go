package meter

import "strings"

// customs writes the custom sections that come before a place in the order of the
// others, and returns the rest.
func (w *rewriter) customs(out *buffer, list []customSection, place int) []customSection {
	for len(list) > 0 && list[0].after <= place {
		c := list[0]
		list = list[1:]
		content := w.module.data[c.content.start:c.content.end]
		switch {
		case w.options.Custom == DropCustom,
			w.options.Custom == KeepNames && c.name != nameSection,
			holdsOffsets(c.name):
			continue
		case c.name == nameSection:
			names, ok := w.names(c)
			if !ok {
				continue
			}
			content = names
		}
		var b buffer
		b.name(c.name)
		b.raw(content)
		out.op(secCustom)
		out.sized(b)
	}
	return list
}

const nameSection = "name"

// holdsOffsets names the custom sections that are about offsets of code, or only
// of use with others that are.
func holdsOffsets(name string) bool {
	for _, prefix := range []string{".debug_", "reloc.", "metadata.code.", "sourceMappingURL", "external_debug_info"} {
		if strings.HasPrefix(name, prefix) {
			return true
		}
	}
	return name == "linking"
}

// Parts of the name section, see
// https://webassembly.github.io/spec/core/appendix/custom.html#name-section. Those
// of labels are from the extended proposal.
const (
	namesFunctions = 1
	namesLocals    = 2
	namesLabels    = 3
)

// names writes the name section anew, with the functions' new indices and names
// for those that were appended. A section that cannot be read is left out: it is
// only for people.
func (w *rewriter) names(c customSection) (buffer, bool) {
	r := &reader{data: w.module.data, pos: c.content.start, end: c.content.end, section: sectionNames[secCustom], function: -1}
	var out buffer
	for r.more() {
		id := r.byte()
		size := r.u32()
		start := r.skip(size)
		if r.err != nil {
			return nil, false
		}
		part := &reader{data: r.data, pos: start, end: r.pos, section: r.section, function: -1}
		var b buffer
		switch id {
		case namesFunctions:
			w.functionNames(part, &b)
		case namesLocals, namesLabels:
			n := part.u32()
			b.u32(n)
			for range n {
				f := part.index(w.module.funcs, "function")
				if part.err != nil {
					return nil, false
				}
				b.u32(f + w.moved(f))
				at := part.pos
				for range part.u32() {
					part.u32()
					part.bytes(part.u32())
					if part.err != nil {
						return nil, false
					}
				}
				b.raw(part.data[at:part.pos])
			}
		default:
			b.raw(part.data[part.pos:part.end])
			part.pos = part.end
		}
		part.done()
		if part.err != nil {
			return nil, false
		}
		out.op(id)
		out.sized(b)
	}
	return out, true
}

// moved is how much the index of a function has grown. A function that a shim
// stands in for keeps its name.
func (w *rewriter) moved(f uint32) uint32 {
	if f >= w.module.importedFuncs {
		return w.shift
	}
	return 0
}

func (w *rewriter) functionNames(r *reader, b *buffer) {
	var list buffer
	n := r.u32()
	total := n + w.shift + uint32(len(w.helpers.keys))
	callback := w.shift > 0
	name := func(f uint32, text string) {
		list.u32(f)
		list.name(text)
	}
	for range n {
		f := r.index(w.module.funcs, "function")
		text := r.bytes(r.u32())
		if r.err != nil {
			return
		}
		if callback && f >= w.module.importedFuncs {
			name(w.callback.function, SliceModule+"."+SliceName)
			callback = false
		}
		list.u32(f + w.moved(f))
		list.sized(text)
	}
	if callback {
		name(w.callback.function, SliceModule+"."+SliceName)
	}
	for i, k := range w.helpers.keys {
		name(w.helpers.first+uint32(i), ReservedPrefix+"/"+k.kind.String())
	}
	b.u32(total)
	b.raw(list)
}

// String names the kind of helper for stack traces.
func (k helperKind) String() string {
	switch k {
	case helpSlice:
		return "slice"
	case helpMemoryGrow:
		return "memory.grow"
	case helpMemoryFill:
		return "memory.fill"
	case helpMemoryCopy:
		return "memory.copy"
	case helpMemoryInit:
		return "memory.init"
	case helpTableGrow:
		return "table.grow"
	case helpTableFill:
		return "table.fill"
	case helpTableCopy:
		return "table.copy"
	case helpTableInit:
		return "table.init"
	case helpSeek:
		return "fd_seek"
	case helpStatFD:
		return "fd_filestat_get"
	case helpStatPath:
		return "path_filestat_get"
	default:
		return "poll_oneoff"
	}
}
