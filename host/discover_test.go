package host

import (
	"encoding/binary"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// policyModule is a policy module that does nothing, with one function import of no
// parameters if name is set.
func policyModule(mod, name string) []byte {
	section := func(id byte, body string) string {
		return string(binary.AppendUvarint([]byte{id}, uint64(len(body)))) + body
	}
	text := func(s string) string { return string(rune(len(s))) + s }
	imports, first := "", byte(0)
	if name != "" {
		imports, first = section(2, "\x01"+text(mod)+text(name)+"\x00\x03"), 1
	}
	export := func(name string, kind, index byte) string { return text(name) + string([]byte{kind, index}) }
	return []byte("\x00asm\x01\x00\x00\x00" +
		section(1, "\x04\x60\x00\x01\x7f\x60\x01\x7f\x01\x7f\x60\x03\x7f\x7f\x7f\x01\x7e\x60\x00\x00") +
		imports +
		section(3, "\x03\x00\x01\x02") +
		section(5, "\x01\x00\x01") +
		section(7, "\x04"+export("memory", 2, 0)+export("abi_version", 0, first)+export("alloc", 0, first+1)+export("handle", 0, first+2)) +
		section(10, "\x03\x06\x00\x41\x80\x80\x04\x0b\x04\x00\x41\x08\x0b\x04\x00\x42\x00\x0b"))
}

const policyManifest = "schema: 1\nname: guard\nversion: 1.0.0\nkind: policy\nruntime: wasm\nprotocol: 1\npath: lib/guard.wasm\n"

// installModule installs a policy plugin "guard" below its own directory lib.
func (f *fixture) installModule(manifest string, code []byte) {
	f.t.Helper()
	f.install("guard", manifest, nil, 0)
	if err := os.MkdirAll(filepath.Join(f.plugins, "guard", "lib"), 0o755); err != nil {
		f.t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(f.plugins, "guard", "lib", "guard.wasm"), code, 0o644); err != nil {
		f.t.Fatal(err)
	}
}

// What Discover says of files is what Open does with them.
func TestDiscoverAgreesWithOpen(t *testing.T) {
	chmod := func(mode os.FileMode, path ...string) func(*fixture) {
		return func(f *fixture) {
			f.t.Helper()
			if err := os.Chmod(filepath.Join(append([]string{f.plugins}, path...)...), mode); err != nil {
				f.t.Fatal(err)
			}
		}
	}
	for _, c := range []struct {
		name   string
		change func(*fixture)
		plugin string
		// cause and fix are parts of what is said; no cause means that all is well.
		cause, fix string
	}{
		{name: "right", change: func(*fixture) {}},
		{"binary writable by others", chmod(0o757, "fake", "fake"), "fake", "lets others write it", "run chmod go-w "},
		{"binary not executable", chmod(0o644, "fake", "fake"), "fake", "not executable", "run chmod +x "},
		{"directory writable by others", chmod(0o777, "fake"), "fake", "lets others write it", "run chmod go-w "},
		{"manifest writable by the group", chmod(0o664, "fake", "plugin.yaml"), "fake", "lets others write it", "run chmod go-w "},
		{"directory of the artifact writable", chmod(0o777, "guard", "lib"), "guard", "lets others write it", "run chmod go-w "},
		{"module writable by others", chmod(0o666, "guard", "lib", "guard.wasm"), "guard", "lets others write it", "run chmod go-w "},
		{"wrong digest", func(f *fixture) {
			f.install("fake", fakeManifest+"sha256: "+strings.Repeat("a", 64)+"\n", self(f.t), 0o755)
		}, "fake", "not the pinned aaa", ""},
		{"newer protocol", func(f *fixture) {
			f.install("fake", strings.Replace(fakeManifest, "protocol: [1]", "protocol: [9]", 1), self(f.t), 0o755)
		}, "fake", "9", ""},
		{"import that is not granted", func(f *fixture) { f.installModule(policyManifest, policyModule("host_v1", "log")) }, "guard", "imports host_v1.log which its manifest does not grant", ""},
		{"import that is granted wrongly", func(f *fixture) {
			f.installModule(policyManifest+"imports: [log]\n", policyModule("host_v1", "log"))
		}, "guard", "imports host_v1.log as", ""},
		{"no module", func(f *fixture) { f.installModule(policyManifest, []byte("#!/bin/sh\n")) }, "guard", "not a WebAssembly", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := newFixture(t)
			f.installFake()
			f.installModule(policyManifest, policyModule("", ""))
			c.change(f)
			list, err := Discover(t.Context(), []string{f.plugins}, Trust{})
			if err != nil || len(list) != 2 {
				t.Fatalf("Discover = %+v, %v", list, err)
			}
			for _, p := range list {
				switch {
				case p.Name != c.plugin && p.State != PluginUnused:
					t.Errorf("%s is %s: %s", p.Name, p.State, p.Cause)
				case p.Name == c.plugin && (p.State != PluginError || !strings.Contains(p.Cause, c.cause)):
					t.Errorf("%s is %s: %q, want an error that says %q", p.Name, p.State, p.Cause, c.cause)
				case p.Name == c.plugin && (!strings.HasPrefix(p.Fix, c.fix) || (c.fix == "") != (p.Fix == "")):
					t.Errorf("fix is %q, want %q", p.Fix, c.fix)
				}
			}
			o := f.options()
			o.Config.Policies = []PolicyConfig{{Plugin: "guard"}}
			h, err := Open(t.Context(), o)
			if h != nil {
				defer h.Close(t.Context())
			}
			switch {
			case c.cause == "" && err != nil:
				t.Errorf("Open = %v", err)
			case c.cause != "" && (err == nil || !strings.Contains(err.Error(), c.cause)):
				t.Errorf("Open = %v, want an error that says %q", err, c.cause)
			}
		})
	}
}
