package wasm

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path"
)

// bundle is what "opa build -t wasm" writes.
type bundle struct {
	module   []byte
	data     map[string]json.RawMessage
	revision string
}

// maxBundleBytes bounds a bundle when it is unpacked, maxBundleFiles its files.
const (
	maxBundleBytes = 2 * maxModuleBytes
	maxBundleFiles = 4096
	maxRevision    = 200
)

// configMember is where a policy finds the operator's configuration: data.config.
const configMember = "config"

// unpackBundle takes a bundle apart. A bare module is one without data.
func unpackBundle(data []byte) (b bundle, err error) {
	if !bytes.HasPrefix(data, []byte{0x1f, 0x8b}) {
		return bundle{module: data}, nil
	}
	zip, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		return b, fmt.Errorf("bundle: %w", err)
	}
	limited := &io.LimitedReader{R: zip, N: maxBundleBytes}
	files := tar.NewReader(limited)
	for n := 0; ; n++ {
		h, err := files.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err == nil && n == maxBundleFiles {
			err = fmt.Errorf("more than %d files", maxBundleFiles)
		}
		if err == nil {
			err = b.add(path.Clean("/"+h.Name), files)
		}
		if err != nil && limited.N <= 0 {
			err = fmt.Errorf("more than %d bytes", maxBundleBytes)
		}
		if err != nil {
			return bundle{}, fmt.Errorf("bundle: %w", err)
		}
	}
	if b.module == nil {
		return bundle{}, errors.New("bundle: has no /policy.wasm: build it with opa build -t wasm")
	}
	return b, nil
}

// add reads what matters. Sources, which opa puts beside the module, do not, and data
// below the root would have been moved into its data.json by opa.
func (b *bundle) add(name string, r io.Reader) error {
	switch name {
	case "/policy.wasm":
		module, err := io.ReadAll(io.LimitReader(r, maxModuleBytes+1))
		if err == nil && (len(module) > maxModuleBytes || b.module != nil) {
			err = fmt.Errorf("%s is there twice, or longer than %d bytes", name, maxModuleBytes)
		}
		b.module = module
		return err
	case "/data.json":
		if b.data != nil {
			return fmt.Errorf("%s is there twice", name)
		}
		if err := json.NewDecoder(r).Decode(&b.data); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		if _, taken := b.data[configMember]; taken {
			return fmt.Errorf("%s: %q is where the operator's configuration goes: call it something else", name, configMember)
		}
	case "/.manifest":
		var m struct {
			Revision string `json:"revision"`
		}
		if err := json.NewDecoder(r).Decode(&m); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		b.revision = printable([]byte(m.Revision[:min(len(m.Revision), maxRevision)]))
	}
	return nil
}

// document is what the policy sees as data.
func (b *bundle) document(config []byte) ([]byte, error) {
	all := map[string]json.RawMessage{configMember: []byte("{}")}
	for name, value := range b.data {
		all[name] = value
	}
	if len(config) > 0 {
		all[configMember] = config
	}
	return json.Marshal(all)
}

// adoptMemory makes the memory that a module imports the module's own: what it asks
// for stays the same, and this package bounds, counts and frees it like any other.
func adoptMemory(module []byte) ([]byte, error) {
	const header, sectionGlobal = 8, 6
	if len(module) < header {
		return nil, errors.New("not a WebAssembly core module of version 1")
	}
	out := bytes.Clone(module[:header])
	r := &binaryReader{data: module[header:]}
	var memory []byte // the section to insert, as it will be
	for r.err == nil && len(r.data) > 0 {
		id := r.byte()
		body := r.bytes(r.u32())
		if r.err != nil {
			break
		}
		switch {
		case id == sectionImport:
			var limits []byte
			if body, limits, r.err = withoutMemory(body); limits != nil {
				memory = append([]byte{sectionMemory, byte(len(limits) + 1), 1}, limits...)
			}
		case id == sectionMemory && memory != nil:
			return nil, errors.New("module imports a memory and has one")
		case id >= sectionGlobal:
			out, memory = append(out, memory...), nil
		}
		out = append(out, id)
		out = binary.AppendUvarint(out, uint64(len(body)))
		out = append(out, body...)
	}
	return append(out, memory...), r.err
}

// withoutMemory takes the memory out of an import section and returns its limits.
func withoutMemory(body []byte) (rest, memory []byte, err error) {
	const kindMemory = 2
	r := &binaryReader{data: body}
	var count uint64
	var kept []byte
	for range r.u32() {
		start := r.data
		r.bytes(r.u32())
		r.bytes(r.u32())
		kind := r.byte()
		before := r.data
		switch kind {
		case kindFunction:
			r.u32()
		case kindMemory:
			r.limits()
			if r.err == nil && memory != nil {
				r.err = errors.New("module imports more than one memory")
			}
		default:
			r.err = errors.New("module imports something that is neither a function nor a memory")
		}
		if r.err != nil {
			return nil, nil, r.err
		}
		if kind == kindMemory {
			memory = before[:len(before)-len(r.data)]
			continue
		}
		count++
		kept = append(kept, start[:len(start)-len(r.data)]...)
	}
	if r.err == nil && len(r.data) > 0 {
		r.err = errTrailing
	}
	return append(binary.AppendUvarint(nil, count), kept...), memory, r.err
}
