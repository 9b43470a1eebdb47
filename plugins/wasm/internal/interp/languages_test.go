package interp

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// language is one row of what every language has to pass: small programs that do
// the same in each. An empty program is a case the language has no way to do; says
// has the reason.
type language struct {
	interpreter, file string
	// build is the command that compiles the file to program, for languages that are
	// compiled.
	build   []string
	program string
	argv0   []string // arguments in place of the file's name

	hello   string // prints "hello"
	fail    string // dies of the language's own error
	argv    string // prints each argument and a newline
	stdin   string // prints standard input in brackets
	files   string // see TestLanguageFiles
	exit    string // prints "out" and exits with 7
	unicode string // prints the text of TestLanguageUnicode and makes a file of that name
	output  string // prints at least 10 MiB
	loop    string // prints "started" and loops for ever
	memory  string // prints "started" and allocates for ever
	recurse string // calls itself for ever
	sleep   string // prints "started" and sleeps for ever
	random  string // prints random numbers

	// code is the exit code of a program that died of an error, failText what it
	// then says, memoryText and recurseText what it says of the limits.
	code                              int
	failText, memoryText, recurseText string
	// crash is the exit code where recursion without end is no error of the language.
	crash int
	// memoryBytes is the limit for the case memory; 0 means 128 MiB.
	memoryBytes int64
	says        map[string]string
}

// languages are the rows by language code.
var languages = map[string]language{
	"py": {
		interpreter: "python3", file: "main.py", code: 1,
		hello: "print('hello')",
		fail:  "print('before')\nint('x')", failText: "ValueError: invalid literal",
		argv:    "import sys\nfor a in sys.argv[1:]: print(a)",
		stdin:   "import sys\nprint('[' + sys.stdin.read() + ']')",
		files:   "import os\nlines = open('in.txt').read().split()\nos.makedirs('out/deep')\nopen('out/deep/result.txt', 'w').write(' '.join(reversed(lines)))\nopen('in.txt', 'a').write('three\\n')\nos.remove('/mnt/data/gone.txt')",
		exit:    "import sys\nprint('out')\nsys.exit(7)",
		unicode: "print('häß ✓ 😀 日本')\nopen('häß ✓ 😀 日本', 'w').write('é')",
		output:  "for i in range(1 << 14): print('x' * 1023)",
		loop:    "print('started', flush=True)\nwhile True: pass",
		memory:  "print('started', flush=True)\nx = []\nwhile True: x.append(bytearray(1 << 20))", memoryText: "MemoryError",
		recurse: "def f(n): return f(n + 1) + 1\nf(0)", recurseText: "RecursionError: maximum recursion depth exceeded",
		sleep:  "import time\nprint('started', flush=True)\ntime.sleep(1e6)",
		random: "import random, os\nprint(random.random(), os.urandom(8).hex())",
	},
	"js": {
		interpreter: "node", file: "main.js", code: 1,
		hello: "console.log('hello')",
		fail:  "console.log('before'); undefinedFunction();", failText: "ReferenceError: undefinedFunction is not defined",
		argv:    "for (const a of process.argv.slice(2)) console.log(a)",
		stdin:   "console.log('[' + require('fs').readFileSync(0, 'utf8') + ']')",
		files:   "const fs = require('fs'); const lines = fs.readFileSync('in.txt', 'utf8').trim().split('\\n'); fs.mkdirSync('out/deep', { recursive: true }); fs.writeFileSync('out/deep/result.txt', lines.reverse().join(' ')); fs.appendFileSync('in.txt', 'three\\n'); fs.unlinkSync('/mnt/data/gone.txt')",
		exit:    "console.log('out'); process.exit(7)",
		unicode: "console.log('häß ✓ 😀 日本'); require('fs').writeFileSync('häß ✓ 😀 日本', 'é')",
		output:  "for (let i = 0; i < 1 << 14; i++) console.log('x'.repeat(1023))",
		loop:    "console.log('started'); for (;;);",
		memory:  "console.log('started'); const x = []; for (;;) x.push(new Uint8Array(1 << 20).fill(1))", memoryText: "out of memory",
		recurse: "function f(n) { return f(n + 1) + 1 } f(0)", recurseText: "RangeError: Maximum call stack size exceeded",
		sleep:  "console.log('started'); setTimeout(() => {}, 2 ** 31 - 1)",
		random: "console.log(Math.random(), require('crypto').randomBytes(8).toString('hex'))",
	},
	"ts": {
		interpreter: "ts", file: "main.ts", code: 1,
		hello: "const word: string = 'hello'; console.log(word)",
		fail:  "interface P { x?: { y: number } }\nconst p: P = {};\nconsole.log(p.x!.y)", failText: "TypeError: ",
		argv:    "for (const a of process.argv.slice(2) as string[]) console.log(a)",
		stdin:   "import * as fs from 'fs';\nconsole.log('[' + fs.readFileSync(0, 'utf8') + ']')",
		files:   "import * as fs from 'fs';\nconst lines: string[] = fs.readFileSync('in.txt', 'utf8').trim().split('\\n'); fs.mkdirSync('out/deep', { recursive: true }); fs.writeFileSync('out/deep/result.txt', lines.reverse().join(' ')); fs.appendFileSync('in.txt', 'three\\n'); fs.unlinkSync('/mnt/data/gone.txt')",
		exit:    "enum Code { Seven = 7 }\nconsole.log('out'); process.exit(Code.Seven)",
		unicode: "import * as fs from 'fs';\nconsole.log('häß ✓ 😀 日本'); fs.writeFileSync('häß ✓ 😀 日本', 'é')",
		output:  "for (let i: number = 0; i < 1 << 14; i++) console.log('x'.repeat(1023))",
		loop:    "console.log('started' as string); for (;;);",
		memory:  "console.log('started'); const x: Uint8Array[] = []; for (;;) x.push(new Uint8Array(1 << 20).fill(1))", memoryText: "out of memory",
		recurse: "function f(n: number): number { return f(n + 1) + 1 } f(0)", recurseText: "RangeError: Maximum call stack size exceeded",
		sleep:  "console.log('started'); setTimeout((): void => {}, 2 ** 31 - 1)",
		random: "console.log(Math.random() as number)",
	},
	"php": {
		interpreter: "php", file: "main.php", code: 255,
		hello: "<?php echo \"hello\\n\";",
		fail:  "<?php echo \"before\\n\"; undefined_function();", failText: "PHP Fatal error:  Uncaught Error: Call to undefined function undefined_function()",
		argv:    "<?php foreach (array_slice($argv, 1) as $a) echo $a, PHP_EOL;",
		stdin:   "<?php echo '[', stream_get_contents(STDIN), \"]\\n\";",
		files:   "<?php $lines = file('in.txt', FILE_IGNORE_NEW_LINES); mkdir('out/deep', 0777, true); file_put_contents('out/deep/result.txt', implode(' ', array_reverse($lines))); file_put_contents('in.txt', \"three\\n\", FILE_APPEND); unlink('/mnt/data/gone.txt');",
		exit:    "<?php echo \"out\\n\"; exit(7);",
		unicode: "<?php echo \"häß ✓ 😀 日本\\n\"; file_put_contents('häß ✓ 😀 日本', 'é');",
		output:  "<?php for ($i = 0; $i < 1 << 14; $i++) echo str_repeat('x', 1023), \"\\n\";",
		loop:    "<?php echo \"started\\n\"; while (true);",
		memory:  "<?php echo \"started\\n\"; $x = []; while (true) $x[] = str_repeat('x', 1 << 20);", memoryText: "PHP Fatal error:  Allowed memory size of ",
		recurse: "<?php function f($n) { return f($n + 1) + 1; } f(0);", recurseText: "PHP Fatal error:  Allowed memory size of ",
		sleep:  "<?php echo \"started\\n\"; sleep(1000000);",
		random: "<?php echo mt_rand(), ' ', bin2hex(random_bytes(8)), ' ', uniqid('', true), ' ', lcg_value();",
	},
	"rb": {
		interpreter: "ruby", file: "main.rb", code: 1,
		hello: "puts 'hello'",
		fail:  "puts 'before'\nInteger('x')", failText: "invalid value for Integer(): \"x\" (ArgumentError)\n\tfrom /run/caisson/main.rb:2:in '<main>'\n",
		argv:    "puts ARGV",
		stdin:   "puts \"[#{$stdin.read}]\"",
		files:   "lines = File.readlines('in.txt', chomp: true)\nrequire 'fileutils'\nFileUtils.mkdir_p('out/deep')\nFile.write('out/deep/result.txt', lines.reverse.join(' '))\nFile.open('in.txt', 'a') { |f| f.puts 'three' }\nFile.delete('/mnt/data/gone.txt')",
		exit:    "puts 'out'\nexit 7",
		unicode: "puts 'häß ✓ 😀 日本'\nFile.write('häß ✓ 😀 日本', 'é')",
		output:  "(1 << 14).times { puts 'x' * 1023 }",
		loop:    "puts 'started'\nloop {}",
		memory:  "puts 'started'\nx = []\nloop { x << 'y' * (1 << 20) }", memoryText: "failed to allocate memory (NoMemoryError)", memoryBytes: 192 << 20,
		recurse: "def f(n) = f(n + 1) + 1\nf(0)", recurseText: "stack level too deep (SystemStackError)",
		sleep:  "puts 'started'\nsleep",
		random: "require 'securerandom'\nputs rand, Random.new.seed, Random.seed, SecureRandom.hex, [*1..1000].shuffle.join",
	},
	"bash": {
		interpreter: "bash", file: "main.sh", code: 127,
		hello: "echo hello",
		fail:  "echo before; undefined_command", failText: "bash: undefined_command: command not found",
		argv:        "for a; do printf '%s\\n' \"$a\"; done",
		stdin:       "printf '[%s]\\n' \"$(cat)\"",
		files:       "mkdir -p out/deep && tac in.txt | paste -sd' ' > out/deep/result.txt; echo three >> in.txt; rm /mnt/data/gone.txt",
		exit:        "echo out; exit 7",
		unicode:     "n='häß ✓ 😀 日本'; echo $n; echo é > \"$n\"",
		output:      "yes \"$(printf '%1023s' x)\" | head -n 16384",
		loop:        "echo started; while :; do :; done",
		sleep:       "echo started; sleep 1000000",
		random:      "echo $RANDOM$RANDOM $SRANDOM $(head -c 8 /dev/urandom | xxd -p)",
		memoryBytes: 192 << 20,
		says: map[string]string{
			"memory":  "Bash has no error for it; package shell tests the end of the script",
			"recurse": "Bash has no error for it; package shell tests the end of the script",
		},
	},
	"c": {
		interpreter: "clang", file: "main.c", program: "/run/caisson/main", code: 1,
		build: strings.Fields("clang -O2 -std=gnu17 -I /mnt/data -o /run/caisson/main /run/caisson/main.c -lm -pthread"),
		hello: "#include <stdio.h>\nint main() { puts(\"hello\"); }",
		fail:  "#include <stdio.h>\nint main() { puts(\"before\"); if (!fopen(\"absent\", \"r\")) { perror(\"absent\"); return 1; } }", failText: "absent: No such file or directory\n",
		argv:    "#include <stdio.h>\nint main(int n, char **v) { while (*++v) puts(*v); }",
		stdin:   "#include <stdio.h>\nint main() { putchar('['); for (int c; (c = getchar()) != EOF;) putchar(c); puts(\"]\"); }",
		files:   "#include <stdio.h>\n#include <unistd.h>\n#include <sys/stat.h>\nint main() { char a[9], b[9]; FILE *f = fopen(\"in.txt\", \"r\"); fscanf(f, \"%8s%8s\", a, b); fclose(f); if (mkdir(\"out\", 0755) || mkdir(\"out/deep\", 0755)) perror(\"mkdir\"); f = fopen(\"out/deep/result.txt\", \"w\"); fprintf(f, \"%s %s\", b, a); fclose(f); f = fopen(\"in.txt\", \"a\"); fputs(\"three\\n\", f); fclose(f); if (unlink(\"/mnt/data/gone.txt\")) perror(\"unlink\"); }",
		exit:    "#include <stdio.h>\nint main() { puts(\"out\"); return 7; }",
		unicode: "#include <stdio.h>\nint main() { puts(\"häß ✓ 😀 日本\"); FILE *f = fopen(\"häß ✓ 😀 日本\", \"w\"); fputs(\"é\", f); fclose(f); }",
		output:  "#include <stdio.h>\nint main() { for (int i = 0; i < 1 << 14; i++) printf(\"%1023d\\n\", i); }",
		loop:    "#include <stdio.h>\nint main() { puts(\"started\"); fflush(stdout); for (volatile int i = 0;; i++); }",
		memory:  "#include <stdio.h>\n#include <stdlib.h>\n#include <string.h>\nint main() { puts(\"started\"); for (char *volatile p; (p = malloc(1 << 20));) memset(p, 1, 1 << 20); perror(\"malloc\"); return 1; }", memoryText: "malloc: Out of memory\n",
		recurse: "int f(volatile int *p) { volatile int a[9] = {*p}; return f(a) + a[1]; }\nint main(int n, char **v) { return f(&n); }", recurseText: "Segmentation fault", crash: 139,
		sleep:  "#include <stdio.h>\n#include <unistd.h>\nint main() { puts(\"started\"); fflush(stdout); sleep(1000000); }",
		random: "#include <stdio.h>\n#include <unistd.h>\nint main() { unsigned a, b; getentropy(&a, 4); FILE *f = fopen(\"/dev/urandom\", \"r\"); fread(&b, 4, 1, f); printf(\"%u %u\\n\", a, b); }",
	},
	"cpp": {
		interpreter: "clang++", file: "main.cpp", program: "/run/caisson/main", code: 1,
		build: strings.Fields("clang++ -O2 -std=gnu++20 -I /mnt/data -o /run/caisson/main /run/caisson/main.cpp -lm -pthread"),
		hello: "#include <iostream>\nint main() { std::cout << \"hello\\n\"; }",
		fail:  "#include <iostream>\n#include <cstring>\n#include <cerrno>\n#include <fstream>\nint main() { std::cout << \"before\" << std::endl; std::ifstream f(\"absent\"); if (!f) { std::cerr << \"absent: \" << std::strerror(errno) << \"\\n\"; return 1; } }", failText: "absent: No such file or directory\n",
		argv:    "#include <iostream>\nint main(int n, char **v) { for (int i = 1; i < n; i++) std::cout << v[i] << '\\n'; }",
		stdin:   "#include <iostream>\n#include <iterator>\n#include <string>\nint main() { std::cout << '[' << std::string(std::istreambuf_iterator<char>(std::cin), {}) << \"]\\n\"; }",
		files:   "#include <fstream>\n#include <string>\n#include <cstdio>\n#include <sys/stat.h>\nint main() { std::string a, b; { std::ifstream f(\"in.txt\"); f >> a >> b; } if (mkdir(\"out\", 0755) || mkdir(\"out/deep\", 0755)) perror(\"mkdir\"); { std::ofstream f(\"out/deep/result.txt\"); f << b << ' ' << a; } { std::ofstream f(\"in.txt\", std::ios::app); f << \"three\\n\"; } if (std::remove(\"/mnt/data/gone.txt\")) perror(\"remove\"); }",
		exit:    "#include <iostream>\n#include <cstdlib>\nint main() { std::cout << \"out\\n\"; std::exit(7); }",
		unicode: "#include <iostream>\n#include <fstream>\nint main() { std::cout << \"häß ✓ 😀 日本\\n\"; std::ofstream(\"häß ✓ 😀 日本\") << \"é\"; }",
		output:  "#include <iostream>\n#include <iomanip>\nint main() { for (int i = 0; i < 1 << 14; i++) std::cout << std::setw(1023) << i << '\\n'; }",
		loop:    "#include <cstdio>\nint main() { std::puts(\"started\"); std::fflush(stdout); for (volatile int i = 0;;) i = 1; }",
		memory:  "#include <iostream>\n#include <new>\n#include <cstring>\nint main() { std::cout << \"started\" << std::endl; for (char *volatile p; (p = new (std::nothrow) char[1 << 20]);) std::memset(p, 1, 1 << 20); std::cerr << \"out of memory\\n\"; return 1; }", memoryText: "out of memory\n",
		recurse: "int f(volatile int *p) { volatile int a[9] = {*p}; return f(a) + a[1]; }\nint main(int n, char **v) { return f(&n); }", recurseText: "Segmentation fault", crash: 139,
		sleep:  "#include <cstdio>\n#include <ctime>\nint main() { std::puts(\"started\"); std::fflush(stdout); timespec t{1000000, 0}; nanosleep(&t, nullptr); }",
		random: "#include <iostream>\n#include <random>\nint main() { std::random_device d; std::cout << d() << ' ' << std::mt19937_64(d())() << '\\n'; }",
	},
	"sql": {
		interpreter: "sqlite3", file: "main.sql", code: 1, argv0: []string{"-bail", "-batch", ":memory:", ".read /run/caisson/main.sql"},
		hello: "select 'hello';",
		fail:  "select 'before';\nselect * from absent;\nselect 'never';", failText: "Parse error near line 2: no such table: absent\n",
		exit:    "select 'out';\n.exit 7",
		unicode: "select 'häß ✓ 😀 日本';\n.output 'häß ✓ 😀 日本'\nselect 'é';",
		output:  "with recursive n(i) as (select 1 union all select i + 1 from n where i < 1 << 14) select printf('%01023d', i) from n;",
		loop:    "select 'started';\nwith recursive n(i) as (select 1 union all select i + 1 from n) select count(*) from n;",
		memory:  "select 'started';\ncreate table t(x);\nwith recursive n(i) as (select 1 union all select i + 1 from n) insert into t select randomblob(1 << 20) from n;", memoryText: "out of memory",
		recurse: "pragma recursive_triggers = on;\ncreate table t(x);\ncreate trigger r after insert on t begin insert into t values (new.x + 1); end;\ninsert into t values (1);", recurseText: "Runtime error near line 4: too many levels of trigger recursion",
		random: "select random(), hex(randomblob(8));\n",
		says: map[string]string{
			"argv": "SQL has no arguments", "stdin": "SQL has no standard input", "sleep": "SQL cannot sleep",
			"files": "see TestSQLFiles: SQL cannot make directories or delete files",
		},
	},
}

// each runs a case for every language that has it and whose pack is there.
func each(t *testing.T, name string, program func(language) string, test func(t *testing.T, l language, s *sandbox, p Program)) {
	for id, l := range languages {
		t.Run(id, func(t *testing.T) {
			if l.says[name] != "" {
				t.Skip(l.says[name])
			}
			if program(l) == "" {
				t.Fatalf("the table has neither a program %q nor a reason", name)
			}
			need(t, l.interpreter)
			s := newSandbox(t)
			p := s.program(l.interpreter, l.file, program(l))
			if l.argv0 != nil {
				p.Argv = append([]string{l.interpreter}, l.argv0...)
			}
			if l.build != nil {
				c := p
				c.Argv = l.build
				if o := s.run(context.Background(), c); o.Code != 0 || o.Reason != ReasonExit || o.stderr != "" {
					t.Fatalf("compile: code %d, %s, %v, stderr:\n%s", o.Code, o.Reason, o.Err, o.stderr)
				}
				p.Argv = []string{l.program}
			}
			test(t, l, s, p)
		})
	}
}

func TestLanguageHello(t *testing.T) {
	each(t, "hello", func(l language) string { return l.hello }, func(t *testing.T, l language, s *sandbox, p Program) {
		s.expect(s.run(context.Background(), p), 0, "hello\n", "")
	})
}

func TestLanguageError(t *testing.T) {
	each(t, "fail", func(l language) string { return l.fail }, func(t *testing.T, l language, s *sandbox, p Program) {
		o := s.run(context.Background(), p)
		if o.Code != l.code || o.Reason != ReasonExit || o.Err != nil || !strings.Contains(o.stderr, l.failText) {
			t.Errorf("code %d, reason %s (%v), stderr %q; want %d and %q", o.Code, o.Reason, o.Err, o.stderr, l.code, l.failText)
		}
	})
}

func TestLanguageArgv(t *testing.T) {
	each(t, "argv", func(l language) string { return l.argv }, func(t *testing.T, l language, s *sandbox, p Program) {
		args := []string{"a b", `"q'`, "new\nline", "$(id)", "-x", "--", "--help", "", "@file", "{dir}", "*", "é✓😀", strings.Repeat("long ", 2000)}
		p.Argv = append(p.Argv, args...)
		s.expect(s.run(context.Background(), p), 0, strings.Join(args, "\n")+"\n", "")
	})
}

func TestLanguageStdin(t *testing.T) {
	each(t, "stdin", func(l language) string { return l.stdin }, func(t *testing.T, l language, s *sandbox, p Program) {
		s.expect(s.run(context.Background(), p), 0, "[]\n", "") // at its end at once
		p.Stdin = strings.NewReader("é✓ first\nsecond")
		s.expect(s.run(context.Background(), p), 0, "[é✓ first\nsecond]\n", "")
	})
}

// TestLanguageFiles: the program reads in.txt, writes its lines in reverse order,
// appends "three" to it and deletes gone.txt.
func TestLanguageFiles(t *testing.T) {
	each(t, "files", func(l language) string { return l.files }, func(t *testing.T, l language, s *sandbox, p Program) {
		s.file("in.txt", "one\ntwo\n")
		s.file("gone.txt", "")
		s.expect(s.run(context.Background(), p), 0, "", "")
		if got := s.content("out/deep/result.txt"); strings.TrimSuffix(got, "\n") != "two one" {
			t.Errorf("result.txt: %q", got)
		}
		if got := s.content("in.txt"); got != "one\ntwo\nthree\n" {
			t.Errorf("in.txt: %q", got)
		}
		if _, err := os.Lstat(filepath.Join(s.data, "gone.txt")); !os.IsNotExist(err) {
			t.Errorf("gone.txt: %v", err)
		}
	})
}

func TestLanguageExitCode(t *testing.T) {
	each(t, "exit", func(l language) string { return l.exit }, func(t *testing.T, l language, s *sandbox, p Program) {
		s.expect(s.run(context.Background(), p), 7, "out\n", "")
	})
}

func TestLanguageUnicode(t *testing.T) {
	const text = "häß ✓ 😀 日本"
	each(t, "unicode", func(l language) string { return l.unicode }, func(t *testing.T, l language, s *sandbox, p Program) {
		s.expect(s.run(context.Background(), p), 0, text+"\n", "")
		if got := s.content(text); strings.TrimSuffix(got, "\n") != "é" {
			t.Errorf("file: %q", got)
		}
	})
}

// Whoever runs programs may keep as little of their output as they like.
func TestLanguageOutput(t *testing.T) {
	each(t, "output", func(l language) string { return l.output }, func(t *testing.T, l language, s *sandbox, p Program) {
		var total, kept int
		p.Stdout = writerFunc(func(b []byte) (int, error) {
			total += len(b)
			kept = min(total, 1<<20)
			return len(b), nil
		})
		p.MemoryBytes = l.limit() // what was written is not kept
		o := s.run(context.Background(), p)
		if o.Code != 0 || o.Reason != ReasonExit || total < 10<<20 || kept != 1<<20 {
			t.Errorf("code %d, reason %s, %d bytes, stderr %q", o.Code, o.Reason, total, o.stderr)
		}
		// A caller that is gone is no reason to fail.
		p.Stdout = writerFunc(func([]byte) (int, error) { return 0, io.ErrClosedPipe })
		if o := s.run(context.Background(), p); o.Code != 0 || o.OutputErr != io.ErrClosedPipe {
			t.Errorf("code %d, %v", o.Code, o.OutputErr)
		}
	})
}

func (l language) limit() int64 {
	if l.memoryBytes > 0 {
		return l.memoryBytes
	}
	return 128 << 20
}

func TestLanguageLoop(t *testing.T) {
	each(t, "loop", func(l language) string { return l.loop }, func(t *testing.T, l language, s *sandbox, p Program) {
		expectTimeout(t, s, p)
	})
}

func TestLanguageSleep(t *testing.T) {
	each(t, "sleep", func(l language) string { return l.sleep }, func(t *testing.T, l language, s *sandbox, p Program) {
		o := expectTimeout(t, s, p)
		// Sleeping is not computing: what was used is the start.
		if hello := s.run(context.Background(), s.program(l.interpreter, l.file, l.hello)); o.Fuel > 2*hello.Fuel+100_000_000 {
			t.Errorf("used %d, a program that does not sleep %d", o.Fuel, hello.Fuel)
		}
	})
}

// expectTimeout runs a program that prints "started" and does not end.
func expectTimeout(t *testing.T, s *sandbox, p Program) out {
	t.Helper()
	if err := shared.Prepare(context.Background(), p.Argv[0]); err != nil {
		t.Fatal(err)
	}
	o := s.expectKilled(p)
	if o.stdout != "started\n" {
		t.Errorf("stdout %q", o.stdout)
	}
	return o
}

func TestLanguageMemory(t *testing.T) {
	each(t, "memory", func(l language) string { return l.memory }, func(t *testing.T, l language, s *sandbox, p Program) {
		p.MemoryBytes = l.limit()
		o := s.run(context.Background(), p)
		if o.Code != l.code || o.Reason != ReasonExit || o.Err != nil || o.stdout != "started\n" || !strings.Contains(o.stderr, l.memoryText) {
			t.Errorf("code %d, reason %s (%v), stdout %q, stderr %q", o.Code, o.Reason, o.Err, o.stdout, o.stderr)
		}
		if o.PeakMemoryBytes > p.MemoryBytes {
			t.Errorf("used %d of %d", o.PeakMemoryBytes, p.MemoryBytes)
		}
	})
}

func TestLanguageRecursion(t *testing.T) {
	each(t, "recurse", func(l language) string { return l.recurse }, func(t *testing.T, l language, s *sandbox, p Program) {
		o := s.run(context.Background(), p)
		if l.crash != 0 {
			l.code, o.Err = l.crash, nil // the crash
		}
		if o.Code != l.code || o.Reason != ReasonExit || o.Err != nil || !strings.Contains(o.stderr, l.recurseText) {
			t.Errorf("code %d, reason %s (%v), stderr %.2000q", o.Code, o.Reason, o.Err, o.stderr)
		}
	})
}

// Instances are alike, their randomness is not.
func TestLanguageRandom(t *testing.T) {
	each(t, "random", func(l language) string { return l.random }, func(t *testing.T, l language, s *sandbox, p Program) {
		a, b := strings.Fields(s.run(context.Background(), p).stdout), strings.Fields(s.run(context.Background(), p).stdout)
		if len(a) == 0 || len(a) != len(b) {
			t.Fatalf("%q and %q", a, b)
		}
		for i := range a {
			if a[i] == b[i] {
				t.Errorf("value %d repeats: %s", i, a[i])
			}
		}
	})
}

// Every language that the engine knows has its row.
func TestLanguageTable(t *testing.T) {
	for _, l := range shared.Languages() {
		if languages[l.ID].interpreter != l.Interpreter {
			t.Errorf("%s is run by %q, the table has %q", l.ID, l.Interpreter, languages[l.ID].interpreter)
		}
	}
}
