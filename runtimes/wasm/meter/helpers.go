package meter

// helper names a function that is appended to the module.
type helper struct {
	kind helperKind
	a, b uint32
}

type helperKind uint8

const (
	helpSlice helperKind = iota // calls the host
	helpMemoryGrow
	helpMemoryFill
	helpMemoryCopy
	helpMemoryInit // of data segment a
	helpTableGrow  // of table a
	helpTableFill  // of table a
	helpTableCopy  // to table a from table b
	helpTableInit  // of element segment a into table b
	helpSeek       // wasi_unstable functions, imported as function a
	helpStatFD
	helpStatPath
	helpPoll
)

// helpers are the functions that are appended.
type helpers struct {
	// first is the index of the first in the result.
	first uint32
	// firstType is the index of their first type.
	firstType uint32
	keys      []helper
	known     map[helper]uint32
	types     []funcType
}

// function returns the index of a helper, which will be appended.
func (h *helpers) function(k helper) uint32 {
	if i, ok := h.known[k]; ok {
		return i
	}
	i := h.first + uint32(len(h.keys))
	h.keys = append(h.keys, k)
	h.known[k] = i
	return i
}

// typeIndex returns the index of a function type, which will be appended.
func (h *helpers) typeIndex(params, results []byte) uint32 {
	for i, t := range h.types {
		if string(t.params) == string(params) && string(t.results) == string(results) {
			return h.firstType + uint32(i)
		}
	}
	h.types = append(h.types, funcType{params, results})
	return h.firstType + uint32(len(h.types)-1)
}

// signature is the type of a helper.
func (w *rewriter) signature(k helper) (params, results []byte) {
	const i = i32Type
	switch k.kind {
	case helpSlice:
		return nil, nil
	case helpMemoryGrow:
		return []byte{i}, []byte{i}
	case helpTableGrow:
		return []byte{w.module.tables[k.a].elem, i}, []byte{i}
	case helpTableFill:
		return []byte{i, w.module.tables[k.a].elem, i}, nil
	case helpMemoryFill, helpMemoryCopy, helpMemoryInit, helpTableCopy, helpTableInit:
		return []byte{i, i, i}, nil
	default:
		t := unstableTypes[k.kind]
		return t.params, t.results
	}
}

// helperBody writes the body of a helper: its locals and code.
func (w *rewriter) helperBody(k helper) buffer {
	switch k.kind {
	case helpSlice:
		return w.sliceBody()
	case helpMemoryGrow, helpTableGrow:
		return w.growBody(k)
	case helpSeek:
		return seekBody(k.a)
	case helpStatFD:
		return statBody(k.a, 2)
	case helpStatPath:
		return statBody(k.a, 5)
	case helpPoll:
		return w.pollBody(k.a)
	default:
		return w.slicedBody(k)
	}
}
