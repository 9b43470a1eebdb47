package meter

// The first snapshot of WASI, wasi_unstable, differs from preview 1 in the order
// of fd_seek's origins, in the layout of filestat and in that of a subscription to
// a clock. Everything else is the same, see
// https://github.com/WebAssembly/WASI/tree/main/legacy. The functions concerned
// are called through shims that translate arguments and results in the module's
// own memory, which no host function could do for another.
const (
	unstableModule = "wasi_unstable"
	preview1Module = "wasi_snapshot_preview1"
)

// errnoFault is what WASI calls return for an address outside of memory.
const errnoFault = 21

// unstableTypes are the types of the functions that differ.
var unstableTypes = map[helperKind]funcType{
	helpSeek:     {[]byte{i32Type, i64Type, i32Type, i32Type}, []byte{i32Type}},
	helpStatFD:   {[]byte{i32Type, i32Type}, []byte{i32Type}},
	helpStatPath: {[]byte{i32Type, i32Type, i32Type, i32Type, i32Type}, []byte{i32Type}},
	helpPoll:     {[]byte{i32Type, i32Type, i32Type, i32Type}, []byte{i32Type}},
}

// shimUnstable puts shims in the place of the imports that need them.
func (w *rewriter) shimUnstable() error {
	m := w.module
	if len(m.memories) == 0 {
		return nil // nothing there works without memory, and nothing could be shimmed
	}
	w.shims = map[uint32]uint32{}
	function := uint32(0)
	for i, im := range m.imports {
		if im.kind != kindFunction {
			continue
		}
		if im.module == unstableModule {
			if kind, ok := unstableKind(im.name); ok {
				have, want := m.types[im.index], unstableTypes[kind]
				if string(have.params) != string(want.params) || string(have.results) != string(want.results) {
					return &Error{
						Reason: ErrMalformed, Section: sectionNames[secImport], Function: int(function), Offset: -1,
						Detail: "import " + itoa(i) + ", " + unstableModule + "." + im.name + ", has not the type it has in WASI",
					}
				}
				w.shims[function] = w.helpers.function(helper{kind: kind, a: function})
			}
		}
		function++
	}
	return nil
}

func unstableKind(name string) (helperKind, bool) {
	switch name {
	case "fd_seek":
		return helpSeek, true
	case "fd_filestat_get":
		return helpStatFD, true
	case "path_filestat_get":
		return helpStatPath, true
	case "poll_oneoff":
		return helpPoll, true
	}
	return 0, false
}

// seekBody translates the origin: current, end, start became start, current, end.
// Any other value is invalid in both.
func seekBody(imported uint32) buffer {
	const fd, offset, whence, result uint32 = 0, 1, 2, 3
	var b buffer
	b.u32(0)
	b.get(fd)
	b.get(offset)
	b.get(whence)
	b.i32(1)
	b.op(opI32Add)
	b.i32(3)
	b.op(opI32RemU)
	b.get(whence)
	b.get(whence)
	b.i32(3)
	b.op(opI32LtU, opSelect)
	b.get(result)
	b.call(imported)
	b.op(opEnd)
	return b
}

// Offsets in filestat. The two agree up to the kind of file.
const (
	statSize, stat1Size   = 56, 64
	statLinks, stat1Links = 20, 24
	statRest, stat1Rest   = 24, 32 // size and three times, eight bytes each
)

// statBody has the caller's buffer, the last of params parameters, filled in with
// the longer layout and turns it into the shorter. The eight bytes by which it is
// longer are borrowed behind the buffer, or at the end of memory before it, and
// put back.
func statBody(imported uint32, params uint32) buffer {
	stat := params - 1
	var (
		base  = params     // where the host writes
		spare = params + 1 // what is borrowed
		errno = params + 2
		saved = params + 3
		wide  = params + 4 // and the next seven: what the host wrote
	)
	var b buffer
	b.u32(2)
	b.u32(3)
	b.op(i32Type)
	b.u32(9)
	b.op(i64Type)

	outside := func(length int64) {
		b.get(stat)
		b.op(opI64ExtendU)
		b.i64(length)
		b.op(opI64Add, opMemorySize, 0, opI64ExtendU)
		b.i64(16)
		b.op(opI64Shl, opI64GtU, opIf, blockVoid)
	}
	outside(statSize)
	b.i32(errnoFault)
	b.op(opReturn, opEnd)

	b.get(stat)
	b.set(base)
	b.get(stat)
	b.i32(statSize)
	b.op(opI32Add)
	b.set(spare)
	outside(stat1Size)
	b.get(stat)
	b.i32(stat1Size - statSize)
	b.op(opI32Sub)
	b.tee(base)
	b.set(spare)
	b.op(opEnd)

	b.get(spare)
	b.memory(opI64Load, 0)
	b.set(saved)
	for p := range stat {
		b.get(p)
	}
	b.get(base)
	b.call(imported)
	b.set(errno)

	// Read all of it before any of it is overwritten.
	for i := range uint32(stat1Size / 8) {
		b.get(base)
		b.memory(opI64Load, i*8)
		b.set(wide + i)
	}
	b.get(spare)
	b.get(saved)
	b.memory(opI64Store, 0)
	b.get(errno)
	b.op(opI32Eqz, opIf, blockVoid)
	store := func(op byte, offset, local uint32) {
		b.get(stat)
		b.get(local)
		b.memory(op, offset)
	}
	for i := range uint32(3) {
		store(opI64Store, i*8, wide+i)
	}
	store(opI64Store32, statLinks, wide+stat1Links/8)
	for i := range uint32(4) {
		store(opI64Store, statRest+i*8, wide+stat1Rest/8+i)
	}
	b.op(opEnd)
	b.get(errno)
	b.op(opEnd)
	return b
}
