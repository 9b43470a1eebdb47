package wasm

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
)

// Bounds on tables, which live in the host's memory outside of the limit on the
// guest's: eight bytes per element.
const (
	maxTables        = 8
	maxTableElements = 1 << 17
)

// moduleImport is one import of a module, by its names.
type moduleImport struct{ module, name string }

// header is what is known of a module before any of it is compiled.
type header struct {
	imports []moduleImport
	// memoryBytes is the least memory the module asks for.
	memoryBytes uint64
}

// Section and kind numbers of the binary format, see
// https://webassembly.github.io/spec/core/binary/modules.html.
const (
	sectionImport = 2
	sectionTable  = 4
	sectionMemory = 5
	kindFunction  = 0
)

// harden reads the sections that say what a module wants from its host, and
// returns the module with a bound on every table that declares none: a guest could
// otherwise grow one until the host is out of memory. Everything it does not read
// is left for wazero to validate.
func harden(module []byte) ([]byte, header, error) {
	var h header
	if len(module) < 8 || string(module[:8]) != "\x00asm\x01\x00\x00\x00" {
		return nil, h, errors.New("not a WebAssembly core module of version 1")
	}
	out := slices.Clone(module[:8])
	r := &binaryReader{data: module[8:]}
	for r.err == nil && len(r.data) > 0 {
		id := r.byte()
		body := r.bytes(r.u32())
		if r.err != nil {
			break
		}
		section := &binaryReader{data: body}
		switch id {
		case sectionImport:
			h.readImports(section)
		case sectionTable:
			body = boundTables(section)
		case sectionMemory:
			for range section.u32() {
				least, _, _ := section.limits()
				h.memoryBytes += uint64(least) * pageBytes
				if section.err != nil {
					break
				}
			}
		}
		if section.err != nil {
			return nil, h, fmt.Errorf("section %d: %w", id, section.err)
		}
		out = append(out, id)
		out = binary.AppendUvarint(out, uint64(len(body)))
		out = append(out, body...)
	}
	if r.err != nil {
		return nil, h, r.err
	}
	return out, h, nil
}

// readImports collects functions and refuses everything else at once: there is no
// host that offers a memory, a table or a global.
func (h *header) readImports(r *binaryReader) {
	for range r.u32() {
		im := moduleImport{string(r.bytes(r.u32())), string(r.bytes(r.u32()))}
		kind := r.byte()
		if r.err == nil && kind != kindFunction {
			r.err = fmt.Errorf("module imports %s.%s, which is not a function; only functions can be granted", im.module, im.name)
		}
		r.u32() // the function's type
		if r.err != nil {
			return
		}
		h.imports = append(h.imports, im)
	}
}

// boundTables writes the table section anew, with a maximum for every table.
func boundTables(r *binaryReader) []byte {
	n := r.u32()
	if n > maxTables {
		r.err = fmt.Errorf("%d tables are more than %d", n, maxTables)
	}
	out := binary.AppendUvarint(nil, uint64(n))
	for range n {
		kind := r.byte()
		least, most, bounded := r.limits()
		switch {
		case r.err != nil:
			return nil
		case kind != 0x70 && kind != 0x6f:
			r.err = fmt.Errorf("table of type %#x is not supported", kind)
		case least > maxTableElements:
			r.err = fmt.Errorf("table of %d elements is larger than %d", least, maxTableElements)
		}
		if !bounded || most > maxTableElements {
			most = maxTableElements
		}
		out = append(out, kind, 1)
		out = binary.AppendUvarint(out, uint64(least))
		out = binary.AppendUvarint(out, uint64(most))
	}
	if r.err == nil && len(r.data) > 0 {
		r.err = errTrailing
	}
	return out
}

var (
	errTruncated = errors.New("module is truncated")
	errTrailing  = errors.New("section is longer than its content")
)

// binaryReader reads the binary format. After the first error it returns zeros.
type binaryReader struct {
	data []byte
	err  error
}

func (r *binaryReader) byte() byte {
	b := r.bytes(1)
	if r.err != nil {
		return 0
	}
	return b[0]
}

func (r *binaryReader) bytes(n uint32) []byte {
	if r.err == nil && uint64(n) > uint64(len(r.data)) {
		r.err = errTruncated
	}
	if r.err != nil {
		return nil
	}
	b := r.data[:n]
	r.data = r.data[n:]
	return b
}

// u32 reads an unsigned LEB128 number of at most five bytes.
func (r *binaryReader) u32() uint32 {
	var v uint64
	for shift := 0; shift < 35; shift += 7 {
		b := r.byte()
		if r.err != nil {
			return 0
		}
		v |= uint64(b&0x7f) << shift
		if b < 0x80 {
			if v > 1<<32-1 {
				break
			}
			return uint32(v)
		}
	}
	if r.err == nil {
		r.err = errors.New("number does not fit 32 bits")
	}
	return 0
}

// limits reads the bounds of a memory or table.
func (r *binaryReader) limits() (least, most uint32, bounded bool) {
	flags := r.byte()
	if r.err == nil && flags > 1 {
		r.err = fmt.Errorf("limits of kind %d (shared or 64-bit) are not supported", flags)
	}
	least = r.u32()
	if flags == 1 {
		return least, r.u32(), true
	}
	return least, 0, false
}
