package clang

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/caisson-run/caisson/plugins/wasm/internal/interp/guest"
	"github.com/caisson-run/caisson/plugins/wasm/internal/rootfs"
)

// Programs that end by themselves.
func TestPrograms(t *testing.T) {
	toolchain(t)
	for _, tc := range []struct {
		name, source   string
		cpp            bool
		args           []string
		in             string
		code           int
		stdout, stderr string
	}{
		{name: "exit code of main", source: "int main(void) { return 300; }", code: 44},
		{name: "exit", source: "#include <stdlib.h>\n#include <stdio.h>\nstatic void bye(void) { puts(\"bye\"); }\nint main() { atexit(bye); exit(9); }", code: 9, stdout: "bye\n"},
		{name: "void main", source: "#include <stdio.h>\nint main() { puts(\"x\"); }", stdout: "x\n"},
		{
			name: "arguments", args: []string{"a b", "", "é😀", "--version", "\n"}, stdout: "6[a b][][é😀][--version][\n]\n",
			source: "#include <stdio.h>\nint main(int n, char **v) { printf(\"%d\", n); for (int i = 1; i < n; i++) printf(\"[%s]\", v[i]); puts(\"\"); }",
		},
		{
			name: "environment", stdout: "/mnt/data C.UTF-8 (null)\n",
			source: "#include <stdio.h>\n#include <stdlib.h>\nint main() { char *x = getenv(\"NOPE\"); printf(\"%s %s %s\\n\", getenv(\"HOME\"), getenv(\"LANG\"), x ? x : \"(null)\"); }",
		},
		{
			name: "numbers", stdout: "3.141592653589793 1.414214 1e+100 0x1p-3 2147483647 -9223372036854775808 ff 3.5\n",
			source: "#include <stdio.h>\n#include <math.h>\n#include <limits.h>\nint main() { printf(\"%.15f %f %g %a %d %lld %x %Lg\\n\", acos(-1), sqrt(2), 1e100, 0.125, INT_MAX, LLONG_MIN, 255, (long double)3.5); }",
		},
		{
			name: "scanf", in: "3 4.5 word\n", stdout: "3 4.5 word, then -1\n",
			source: "#include <stdio.h>\nint main() { int i; double d; char s[9]; scanf(\"%d %lf %8s\", &i, &d, s); printf(\"%d %g %s, then %d\\n\", i, d, s, scanf(\"%d\", &i)); }",
		},
		{
			name: "deep constant expressions", cpp: true, stdout: "500 900 300\n",
			source: "#include <cstdio>\nconstexpr int f(int n) { return n ? f(n - 1) + 1 : 0; }\ntemplate<int N> struct F { static const int v = F<N-1>::v + 1; };\ntemplate<> struct F<0> { static const int v = 0; };\nint main() { constexpr int c = f(500); std::printf(\"%d %d %d\\n\", c, int(F<900>::v), int(F<300>::v)); }",
		},
		{
			name: "long expressions", stdout: "2000 5\n",
			source: "#include <stdio.h>\nint main(int c, char **v) { printf(\"%d %d\\n\", c - 1" + strings.Repeat(" + c", 2000) + ", " + strings.Repeat("(", 250) + "5" + strings.Repeat(")", 250) + "); }",
		},
		{name: "end of input", stdout: "-1\n", source: "#include <stdio.h>\nint main() { printf(\"%d\\n\", getchar()); }"},
		{
			name: "strings and sorting", stdout: "a,b,c 1 3 5\n",
			source: "#include <stdio.h>\n#include <string.h>\n#include <stdlib.h>\nint cmp(const void *a, const void *b) { return *(int*)a - *(int*)b; }\nint main() { char s[] = \"a b c\"; for (char *p = strchr(s, ' '); p; p = strchr(p, ' ')) *p = ','; int v[] = {5, 1, 3}; qsort(v, 3, sizeof *v, cmp); printf(\"%s %d %d %d\\n\", s, v[0], v[1], v[2]); }",
		},
		{
			name: "clocks", stdout: "1 1 1 0\n",
			source: "#include <stdio.h>\n#include <time.h>\n#include <unistd.h>\nint main() { struct timespec a, b; clock_gettime(CLOCK_MONOTONIC, &a); usleep(20000); clock_gettime(CLOCK_MONOTONIC, &b); long ms = (b.tv_sec - a.tv_sec) * 1000 + (b.tv_nsec - a.tv_nsec) / 1000000; time_t t = time(0); printf(\"%d %d %d %d\\n\", ms >= 19 && ms < 5000, t > 1700000000, clock() != (clock_t)-1, gmtime(&(time_t){0})->tm_hour); }",
		},
		{
			name: "no memory left", stdout: "null\n",
			source: "#include <stdio.h>\n#include <stdlib.h>\n#include <string.h>\nchar *volatile p;\nint main() { while ((p = malloc(1 << 20))) memset(p, 1, 1 << 20); puts(\"null\"); }",
		},
		{
			name: "unions, bit fields, variable arrays", stdout: "5 16 40\n",
			source: "#include <stdio.h>\nstruct s { unsigned a : 3, b : 5; };\nint main(int n, char **v) { struct s s = {5, 16}; int a[n * 10]; printf(\"%d %d %d\\n\", s.a, s.b, (int)sizeof a); }",
		},
		{name: "float to int out of range", stdout: "ok\n", source: "#include <stdio.h>\n#include <math.h>\nint main() { volatile double d = 1e300; volatile int i = (int)d; d = NAN; i = (int)d; puts(\"ok\"); }"},
		{
			name: "assert", code: 134, stderr: "Assertion failed: n > 5 (/run/caisson/main.c: main: 2)\nAborted\n",
			source: "#include <assert.h>\nint main(int n, char **v) { assert(n > 5); }",
		},
		{name: "abort", code: 134, stderr: "Aborted\n", source: "#include <stdlib.h>\nint main() { abort(); }"},
		{name: "division by zero", code: 136, stderr: "Floating point exception: integer divide by zero\n", source: "int main(int n, char **v) { volatile int z = 0; return n / z; }"},
		{name: "division overflow", code: 136, stderr: "Floating point exception: integer overflow\n", source: "int main(int n, char **v) { volatile int a = -2147483648, b = -1; return a / b; }"},
		{name: "wild pointer", code: 139, stderr: "Segmentation fault: memory access out of bounds, or stack overflow\n", source: "int main() { return *(volatile int*)0x7fffffff; }"},
		{
			name: "endless recursion", code: 139, stderr: "Segmentation fault: memory access out of bounds, or stack overflow\n",
			source: "int f(volatile int *p, int n) { volatile int a[100]; a[n % 100] = *p; return f(a, n + 1) + a[0]; }\nint main() { volatile int x = 1; return f(&x, 0); }",
		},
		{
			name: "endless recursion without memory", code: 139, stderr: "Segmentation fault: stack overflow\n",
			source: "volatile int sink;\n__attribute__((noinline)) int f(int n) { sink = n; int r = f(n + 1); return r + sink; }\nint main() { return f(0); }",
		},
		{
			name: "wrong function type", code: 139, stderr: "Segmentation fault: indirect call type mismatch\n",
			source: "int f(int a) { return a; }\nint main() { double (*volatile g)(double, double) = (double (*)(double, double))f; return (int)g(1, 2); }",
		},

		{
			cpp: true, name: "containers", stdout: "a=1 b=2 6 3 caf\n",
			source: "#include <iostream>\n#include <map>\n#include <vector>\n#include <string>\n#include <numeric>\n#include <algorithm>\n#include <memory>\nusing namespace std;\nint main() { map<string, int> m{{\"b\", 2}, {\"a\", 1}}; for (auto &[k, v] : m) cout << k << '=' << v << ' '; vector<int> v{1, 2, 3}; cout << accumulate(v.begin(), v.end(), 0) << ' ' << *max_element(v.begin(), v.end()) << ' '; auto p = make_unique<string>(\"café\"); cout << p->substr(0, 3) << endl; }",
		},
		{
			cpp: true, name: "order of globals", stdout: "constructed\nmain\ndestroyed\n",
			source: "#include <cstdio>\nstruct S { S() { puts(\"constructed\"); } ~S() { puts(\"destroyed\"); } };\nS s;\nint main() { puts(\"main\"); }",
		},
		{
			cpp: true, name: "static locals, lambdas, virtual functions, RTTI", stdout: "1 2 derived 1\n",
			source: "#include <iostream>\n#include <functional>\nstruct A { virtual const char *n() { return \"base\"; } virtual ~A() {} };\nstruct B : A { const char *n() override { return \"derived\"; } };\nint next() { static int i = 0; return ++i; }\nint main() { std::function<int()> f = [] { return next(); }; std::cout << f() << ' ' << f() << ' '; A *a = new B; std::cout << a->n() << ' ' << (dynamic_cast<B*>(a) != nullptr) << std::endl; delete a; }",
		},
		{
			cpp: true, name: "all headers", in: "2 3\n", stdout: "5 101 3.14\n",
			source: "#include <bits/stdc++.h>\nusing namespace std;\nint main() { int a, b; cin >> a >> b; ostringstream s; s << fixed << setprecision(2) << M_PI; cout << a + b << ' ' << bitset<3>(5) << ' ' << s.str() << '\\n'; }",
		},
		{
			cpp: true, name: "random, time and regular expressions", stdout: "1 1 bc\n",
			source: "#include <iostream>\n#include <random>\n#include <chrono>\n#include <regex>\nint main() { std::random_device d; std::mt19937 g(d()); auto t = std::chrono::steady_clock::now(); std::smatch m; std::string s = \"abcd\"; std::regex_search(s, m, std::regex(\"b.\")); std::cout << (g() != g()) << ' ' << (std::chrono::steady_clock::now() >= t) << ' ' << m[0] << '\\n'; }",
		},
		{
			cpp: true, name: "lines of input", in: "one\ntwo\nlast", stdout: "[one][two][last]\n",
			source: "#include <iostream>\n#include <string>\nint main() { std::string l; while (std::getline(std::cin, l)) std::cout << '[' << l << ']'; std::cout << std::endl; }",
		},
		{
			cpp: true, name: "what would throw", code: 134, stderr: "Aborted\n",
			source: "#include <vector>\nint main() { std::vector<int> v(1); return v.at(5); }",
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := newSandbox(t)
			o := s.run(tc.cpp, tc.source, func(p *guest.Program) {
				p.MemoryBytes = 128 << 20
				if tc.in != "" {
					p.Stdin = strings.NewReader(tc.in)
				}
			}, tc.args...)
			if o.Code != tc.code || o.stdout != tc.stdout || o.stderr != tc.stderr || o.Reason != guest.ReasonExit {
				t.Errorf("code %d, %s, %v\n-- stdout:\n%s\n-- stderr:\n%s\nwant code %d\n-- stdout:\n%s\n-- stderr:\n%s",
					o.Code, o.Reason, o.Err, o.stdout, o.stderr, tc.code, tc.stdout, tc.stderr)
			}
		})
	}
}

// Programs that do not compile: the text is the compiler's, and nothing runs.
func TestErrors(t *testing.T) {
	toolchain(t)
	for _, tc := range []struct {
		name, source string
		cpp          bool
		code         int
		stderr       []string
	}{
		{name: "syntax", source: "int main() {\n  return 1\n}", code: 1, stderr: []string{"/run/caisson/main.c:2:11: error: expected ';' after return statement\n  return 1\n          ^\n", "1 error generated.\n"}},
		{name: "several", source: "int main() { a; b; }", code: 1, stderr: []string{"use of undeclared identifier 'a'", "use of undeclared identifier 'b'", "2 errors generated."}},
		{name: "warning", source: "int main() { int x; x == 1; return 0; }", stderr: []string{"main.c:1:23: warning: equality comparison result unused [-Wunused-comparison]", "1 warning generated."}},
		{name: "undefined function", source: "void f(void);\nint main() { f(); }", code: 1, stderr: []string{"undefined symbol: f\n", "clang: error: linker command failed with exit code 1"}},
		{name: "no main", source: "int x;", code: 1, stderr: []string{"undefined symbol: main\n", "linker command failed"}},
		{name: "no header", source: "#include <pthreads.h>\nint main() {}", code: 1, stderr: []string{"fatal error: 'pthreads.h' file not found"}},
		{name: "#error", source: "#error no way", code: 1, stderr: []string{"error: no way"}},
		{name: "endless include", source: "#include \"main.c\"\n", code: 1, stderr: []string{"#include nested too deeply"}},
		{name: "exceptions", cpp: true, source: "int main() { try { throw 1; } catch (int) {} }", code: 1, stderr: []string{"cannot use 'try' with exceptions disabled", "cannot use 'throw' with exceptions disabled"}},
		{name: "templates", cpp: true, source: "#include <iostream>\n#include <vector>\nint main() { std::vector<int> v; v.push(1); }", code: 1, stderr: []string{"no member named 'push' in 'std::", "1 error generated."}},
		{name: "host files", source: "#include \"/etc/passwd\"\nint main() {}", code: 1, stderr: []string{"fatal error: '/etc/passwd' file not found"}},
		{name: "outside", source: "#include \"../../../etc/passwd\"\nint main() {}", code: 1, stderr: []string{"file not found"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := newSandbox(t)
			o := s.compile(tc.cpp, tc.source)
			if o.Code != tc.code || o.Reason != guest.ReasonExit || o.stdout != "" {
				t.Errorf("code %d, %s, %v, stdout %q", o.Code, o.Reason, o.Err, o.stdout)
			}
			for _, want := range tc.stderr {
				if !strings.Contains(o.stderr, want) {
					t.Errorf("stderr:\n%s\nwants %q", o.stderr, want)
				}
			}
		})
	}
}

// Limits reach the compiler and the program, with their reasons.
func TestLimits(t *testing.T) {
	toolchain(t)
	cause := errors.New("limit")
	within := func(d time.Duration) (context.Context, context.CancelFunc) {
		return context.WithTimeoutCause(t.Context(), d, cause)
	}
	t.Run("loop", func(t *testing.T) {
		s := newSandbox(t)
		if o := s.compile(false, "#include <stdio.h>\nint main() { puts(\"started\"); fflush(stdout); for (volatile int i = 0;; i++); }"); o.Code != 0 {
			t.Fatal(o.stderr)
		}
		ctx, cancel := within(5 * time.Second)
		defer cancel()
		if o := s.exec(ctx, nil, "/run/caisson/main"); o.Reason != guest.ReasonTimeout || o.stdout != "started\n" || !errors.Is(o.Err, cause) {
			t.Errorf("%+v", o)
		}
	})
	t.Run("fuel", func(t *testing.T) {
		s := newSandbox(t)
		o := s.run(false, "int main() { for (volatile int i = 0;; i++); }", func(p *guest.Program) { p.FuelLimit = 1_000_000_000 })
		if o.Reason != guest.ReasonCPU || o.Fuel < 1_000_000_000 || o.Fuel > 1_010_000_000 {
			t.Errorf("%+v", o)
		}
	})
	t.Run("compiler", func(t *testing.T) {
		s := newSandbox(t)
		s.write(s.entry, "main.cpp", templateBomb)
		ctx, cancel := within(500 * time.Millisecond)
		defer cancel()
		if o := s.exec(ctx, nil, buildCPP...); o.Reason != guest.ReasonTimeout {
			t.Errorf("%+v", o)
		}
		o := s.exec(t.Context(), func(p *guest.Program) { p.FuelLimit = 300_000_000 }, buildCPP...)
		if o.Reason != guest.ReasonCPU || o.Fuel > 310_000_000 {
			t.Errorf("%+v", o)
		}
	})
	t.Run("memory that it declares", func(t *testing.T) {
		s := newSandbox(t)
		o := s.run(false, "char big[60 << 20];\nint main(int n, char **v) { return big[n]; }", func(p *guest.Program) { p.MemoryBytes = 64 << 20 })
		if o.Reason != guest.ReasonMemory || o.Code != guest.CodeKilled || !strings.Contains(o.stderr, "the limit is 64 MiB") {
			t.Errorf("%+v", o)
		}
	})
	t.Run("memory of C++", func(t *testing.T) {
		s := newSandbox(t)
		o := s.run(true, "#include <vector>\nint main() { std::vector<std::vector<int>> v; for (;;) v.emplace_back(1 << 18, 1); }", func(p *guest.Program) { p.MemoryBytes = 64 << 20 })
		if o.Reason != guest.ReasonMemory || !o.MemoryLimited || !strings.Contains(o.stderr, "std::bad_alloc") {
			t.Errorf("%+v", o)
		}
	})
	t.Run("code", func(t *testing.T) {
		s := newSandbox(t)
		size := binary.AppendUvarint(nil, maxCode+1)
		s.write(s.entry, "main", "\x00asm\x01\x00\x00\x00\x0a"+string(size)+strings.Repeat("\x00", maxCode+1))
		if o := s.exec(t.Context(), nil, "/run/caisson/main"); o.Code != codeNotExecutable || !strings.Contains(o.stderr, "bytes of code") {
			t.Errorf("%+v", o)
		}
	})
	t.Run("globals", func(t *testing.T) {
		s := newSandbox(t)
		if o := s.compile(false, "char big[100 << 20];\nint main(int n, char **v) { return big[n]; }"); o.Code != 1 || !strings.Contains(o.stderr, "allocate large arrays with malloc") {
			t.Errorf("%+v", o)
		}
	})
}

// templateBomb takes the compiler a very long time.
const templateBomb = `template <int N, int M> struct F { static const int v = F<N - 1, M * 2 % 1000003>::v + F<N - 1, M * 2 % 1000003 + 1>::v; };
template <int M> struct F<0, M> { static const int v = M; };
int main() { return F<20, 1>::v; }`

// What is no program is refused as a shell would.
func TestNoProgram(t *testing.T) {
	toolchain(t)
	s := newSandbox(t)
	module := "\x00asm\x01\x00\x00\x00"
	for name, content := range map[string]string{
		"text": "#!/bin/sh\n", "empty": "", "bare": module, "cut": module + "\x01", "version": "\x00asm\x02\x00\x00\x00",
		"section": module + "\x0a\xff\xff\xff\xff\x0f", "reserved": module + "\x07\x12\x01\x0fcaisson.meter.x\x03\x00",
		"import": module + "\x01\x04\x01\x60\x00\x00\x02\x09\x01\x03env\x01f\x00\x00",
		// A memory of 4 GiB, with a _start.
		"memory": module + "\x01\x04\x01\x60\x00\x00\x03\x02\x01\x00\x05\x05\x01\x00\x80\x80\x04\x07\x13\x02\x06_start\x00\x00\x06memory\x02\x00\x0a\x04\x01\x02\x00\x0b",
	} {
		t.Run(name, func(t *testing.T) {
			s.write(s.entry, name, content)
			o := s.exec(t.Context(), nil, "/run/caisson/"+name)
			want := codeNotExecutable
			if name == "memory" {
				want = guest.CodeKilled
			}
			if o.Code != want || o.stderr == "" || strings.Contains(o.stderr, s.entry) {
				t.Errorf("%+v", o)
			}
		})
	}
	if o := s.exec(t.Context(), nil, "/run/caisson/absent"); o.Code != codeNotFound || o.stderr != "/run/caisson/absent: not found\n" {
		t.Errorf("%+v", o)
	}
}

// A compiled program is kept where the command says, counts as one of the caller's
// files there, and runs from there.
func TestFiles(t *testing.T) {
	toolchain(t)
	s := newSandbox(t)
	s.write(s.data, "part.h", "int part(void);\n")
	s.write(s.data, "part.c", "#include \"part.h\"\nint part(void) { return 5; }\n")
	s.write(s.data, "main.c", "#include <part.h>\n#include <stdio.h>\nint main() { FILE *f = fopen(\"out.txt\", \"w\"); fprintf(f, \"%d\", part() + N); return fclose(f); }\n")
	if o := s.exec(t.Context(), nil, "clang", "-Wall", "-DN=2", "-Iother", "-I.", "main.c", "part.c"); o.Code != 0 || o.stderr != "" {
		t.Fatalf("%+v", o)
	}
	if o := s.exec(t.Context(), nil, "/mnt/data/a.out"); o.Code != 0 {
		t.Fatalf("%+v", o)
	}
	if b, err := os.ReadFile(filepath.Join(s.data, "out.txt")); err != nil || string(b) != "7" {
		t.Errorf("%q, %v", b, err)
	}
	full := func(p *guest.Program) {
		p.Data.Quota = rootfs.NewQuota(rootfs.Limits{Bytes: 1000, Entries: 100, OpenFiles: 10})
	}
	if o := s.exec(t.Context(), full, "clang", "-I.", "-o", "full", "part.c", "main.c", "-DN=1"); o.Code != 1 || !strings.Contains(o.stderr, "unable to open output file '/mnt/data/full'") {
		t.Errorf("%+v", o)
	}
	for _, output := range []string{"/etc/x", "/sys/include/stdio.h", "/mnt/data/../../x", "/run/caisson/../x"} {
		if o := s.exec(t.Context(), nil, "clang", "-I.", "-o", output, "part.c", "main.c", "-DN=1"); o.Code != 1 || !strings.Contains(o.stderr, "read-only file system") {
			t.Errorf("%s: %+v", output, o)
		}
	}
}

// The same source is the same work and the same program, whoever compiles it where.
func TestDeterministic(t *testing.T) {
	toolchain(t)
	var fuel int64
	var program []byte
	for i := range 3 {
		s := newSandbox(t)
		s.write(s.data, "helper.h", "#define WORD \"helped\"\n")
		o := s.compile(false, "#include <stdio.h>\n#include \"helper.h\"\nint main() { puts(WORD); }")
		b, err := os.ReadFile(filepath.Join(s.entry, "main"))
		if err != nil {
			t.Fatal(err, o.stderr)
		}
		if i > 0 && (o.Fuel != fuel || !bytes.Equal(b, program)) {
			t.Errorf("%d units and %d bytes, then %d and %d", fuel, len(program), o.Fuel, len(b))
		}
		fuel, program = o.Fuel, b
	}
}
