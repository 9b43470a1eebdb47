package clang

import (
	"context"
	"os/exec"
	"path/filepath"
	"testing"
)

// sources of the benchmarks: a word, and a few containers.
const (
	helloC   = "#include <stdio.h>\nint main() { puts(\"hello\"); }\n"
	helloCPP = "#include <iostream>\nint main() { std::cout << \"hello\\n\"; }\n"
	usualCPP = "#include <iostream>\n#include <map>\n#include <string>\n#include <vector>\n#include <algorithm>\nint main() { std::map<std::string, int> m; m[\"hello\"] = 1; std::vector<int> v{3, 1, 2}; std::sort(v.begin(), v.end()); for (auto &p : m) std::cout << p.first << '\\n'; }\n"
)

// BenchmarkRun compiles and runs, as one request does, here and with the compiler
// of the machine.
func BenchmarkRun(b *testing.B) {
	for _, bc := range []struct {
		name, source, native string
		cpp                  bool
	}{
		{"c hello", helloC, "gcc", false}, {"cpp hello", helloCPP, "g++", true}, {"cpp containers", usualCPP, "g++", true},
	} {
		file, build := "main.c", buildC
		if bc.cpp {
			file, build = "main.cpp", buildCPP
		}
		b.Run(bc.name+"/caisson", func(b *testing.B) {
			if err := toolchain(b).Warm(context.Background()); err != nil {
				b.Fatal(err)
			}
			s := newSandbox(b)
			s.write(s.entry, file, bc.source)
			for b.Loop() {
				if o := s.exec(context.Background(), nil, build...); o.Code != 0 {
					b.Fatal(o.stderr)
				}
				if o := s.exec(context.Background(), nil, "/run/caisson/main"); o.stdout != "hello\n" {
					b.Fatalf("%+v", o)
				}
			}
		})
		b.Run(bc.name+"/"+bc.native, func(b *testing.B) {
			compiler, err := exec.LookPath(bc.native)
			if err != nil {
				b.Skipf("%s is not installed", bc.native)
			}
			s := newSandbox(b)
			s.write(s.entry, file, bc.source)
			program := filepath.Join(s.entry, "main")
			for b.Loop() {
				if err := exec.Command(compiler, "-O2", "-o", program, filepath.Join(s.entry, file)).Run(); err != nil {
					b.Fatal(err)
				}
				if err := exec.Command(program).Run(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
