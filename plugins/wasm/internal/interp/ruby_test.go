package interp

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/caisson-run/caisson/plugins/wasm/internal/interp/ruby"
	"github.com/caisson-run/caisson/plugins/wasm/internal/packs"
)

func (s *sandbox) ruby(source string, args ...string) out {
	s.t.Helper()
	need(s.t, "ruby")
	return s.run(context.Background(), s.program("ruby", "main.rb", source, args...))
}

// The runner stands in for the command line of the build, which cannot be used.
func TestRubyIsTheCommandLine(t *testing.T) {
	s := newSandbox(t)
	s.file("helper.rb", "def helper = __FILE__\n")
	s.file("lib/deep.rb", "DEEP = __dir__\n")
	p := s.program("ruby", "main.rb", `p __FILE__, $0, ARGV, Dir.pwd, __dir__, self, __FILE__ == $0, __method__
p ENV.sort.to_h.except("MT_CPU"), RUBY_VERSION, Encoding.default_external, "".encoding, $stdin.external_encoding
require "helper"
require_relative "../../mnt/data/lib/deep"
p helper, DEEP, DATA.read
def top = 1
p self.class.private_method_defined?(:top), binding.local_variables, $VERBOSE
__END__
the rest
`, "a b", "-x")
	need(t, "ruby")
	p.Argv = append([]string{"ruby", "-I", "/mnt/data", "-Ilib", "-W1"}, p.Argv[1:]...)
	p.Env = map[string]string{"A": "b c"}
	s.expect(s.run(context.Background(), p), 0, `"/run/caisson/main.rb"
"/run/caisson/main.rb"
["a b", "-x"]
"/mnt/data"
"/run/caisson"
main
true
nil
{"A" => "b c", "HOME" => "/mnt/data", "LANG" => "C.UTF-8", "PATH" => "/usr/local/bin:/usr/bin:/bin", "PWD" => "/mnt/data", "TMPDIR" => "/tmp"}
"3.4.1"
#<Encoding:UTF-8>
#<Encoding:UTF-8>
#<Encoding:UTF-8>
"/mnt/data/helper.rb"
"/mnt/data/lib"
"the rest\n"
true
[]
false
`, "")
	for _, tc := range []struct {
		argv           []string
		code           int
		stdout, stderr string
	}{
		{[]string{"-rjson", "-e", "puts [1].to_json", "-e", "puts ARGV", "--", "-v"}, 0, "[1]\n-v\n", ""},
		{[]string{"--version"}, 0, "ruby 3.4.1 (2024-12-25 revision 48d4efcb85) +PRISM [wasm32-wasi]\n", ""},
		{[]string{"/mnt/data/none.rb"}, 1, "", "ruby: No such file or directory -- /mnt/data/none.rb (LoadError)\n"},
		{[]string{"-n", "x"}, 1, "", "ruby: this sandbox does not know the option -n\n"},
		{[]string{"-e", "raise 'x'"}, 1, "", "-e:1:in '<compiled>': x (RuntimeError)\n"},
		{[]string{"-"}, 0, "from stdin\n", ""},
	} {
		p.Argv = append([]string{"ruby"}, tc.argv...)
		p.Stdin = strings.NewReader("puts 'from stdin'")
		s.expect(s.run(context.Background(), p), tc.code, tc.stdout, tc.stderr)
	}
}

func TestRubyEndings(t *testing.T) {
	s := newSandbox(t)
	for name, tc := range map[string]struct {
		source         string
		code           int
		stdout, stderr string
	}{
		"uncaught": {"def foo(x) = x.upcase\nfoo(nil)", 1, "", `/run/caisson/main.rb:1:in 'Object#foo': undefined method 'upcase' for nil (NoMethodError)

def foo(x) = x.upcase
              ^^^^^^^
	from /run/caisson/main.rb:2:in '<main>'
`},
		"suggestion": {"number = 1\nputs numbr", 1, "", `/run/caisson/main.rb:2:in '<main>': undefined local variable or method 'numbr' for main (NameError)

puts numbr
     ^^^^^
Did you mean?  number
`},
		"cause": {"begin\n  raise 'inner'\nrescue\n  raise ArgumentError, 'outer'\nend", 1, "", `/run/caisson/main.rb:4:in '<main>': outer (ArgumentError)

  raise ArgumentError, 'outer'
        ^^^^^^^^^^^^^^^^^^^^^^
/run/caisson/main.rb:2:in '<main>': inner (RuntimeError)
`},
		"syntax":       {"puts 1\ndef f(:\n", 1, "", `/run/caisson/main.rb:2: syntax error`},
		"abort":        {"abort 'a message'", 1, "", "a message\n"},
		"exit true":    {"exit", 0, "", ""},
		"exit false":   {"exit false", 1, "", ""},
		"exit!":        {"at_exit { puts 'never' }\nexit! 9", 9, "", ""},
		"exit nested":  {"begin\n  exit 3\nensure\n  puts 'ensured'\nend", 3, "ensured\n", ""},
		"throw":        {"throw :x", 1, "", "/run/caisson/main.rb:1:in 'Kernel#throw': uncaught throw :x (UncaughtThrowError)\n\nthrow :x\n      ^^\n\tfrom /run/caisson/main.rb:1:in '<main>'\n"},
		"interrupt":    {"raise Interrupt", 130, "", "/run/caisson/main.rb:1:in '<main>': Interrupt (Interrupt)\n"},
		"signal":       {"raise SignalException, 'TERM'", 143, "", ""},
		"at_exit":      {"at_exit { puts 'first', $!.inspect }\nat_exit { puts 'second'; at_exit { puts 'third' } }\nputs 'main'\nraise 'x'", 1, "main\nsecond\nthird\nfirst\n#<RuntimeError: x>\n", "/run/caisson/main.rb:4:in '<main>': x (RuntimeError)\n"},
		"at_exit exit": {"at_exit { exit 5 }\nputs 'main'", 5, "main\n", ""},
		"END":          {"END { puts 'at the end' }\nputs 'END { in text }'\ntext = <<~X\n  END { not code }\nX\nputs text", 0, "END { in text }\nEND { not code }\nat the end\n", ""},
		"BEGIN":        {"puts 'main'\nBEGIN { puts 'first' }", 0, "first\nmain\n", ""},
		"return":       {"puts 'a'\nreturn\nputs 'b'", 0, "a\n", ""},
		"warn":         {"warn 'careful'\n$stderr.puts 'err'", 0, "", "careful\nerr\n"},
	} {
		t.Run(name, func(t *testing.T) {
			s.t = t
			o := s.ruby(tc.source)
			if o.Code != tc.code || o.Reason != ReasonExit || o.stdout != tc.stdout || o.stderr != tc.stderr && (name != "syntax" && name != "cause" || !strings.Contains(o.stderr, strings.TrimSpace(tc.stderr))) || strings.Contains(o.stderr, "caisson>") {
				t.Errorf("code %d, reason %s (%v)\n-- stdout:\n%s\n-- stderr:\n%s", o.Code, o.Reason, o.Err, o.stdout, o.stderr)
			}
		})
	}
}

func TestRubyLibrary(t *testing.T) {
	s := newSandbox(t)
	s.expect(s.ruby(`
require "json"; require "set"; require "time"; require "csv"; require "yaml"; require "erb"; require "digest"; require "tempfile"; require "ostruct"; require "optparse"; require "zlib"; require "matrix"; require "pp"; require "strscan"
puts JSON.generate({"ü" => [1, nil, 1.5]}), JSON.parse('{"a":[1]}'), Set[1, 2].inspect, Time.at(0).utc.iso8601
puts CSV.parse("a,b\n1,2\n", headers: true).map(&:to_h).inspect, {"k" => [1]}.to_yaml, ERB.new("<%= 1 + 1 %>").result
puts Digest::SHA256.hexdigest("x")[0, 8], Matrix[[1, 2], [3, 4]].determinant, Zlib::Inflate.inflate(Zlib::Deflate.deflate("round"))
Tempfile.create { |f| f.write("x"); f.flush; puts f.path.start_with?("/tmp/"), File.size(f.path) }
f = Fiber.new { |x| Fiber.yield x + 1; :done }
p f.resume(1), f.resume, [1, 2].each.next, (1..).lazy.map { _1 * 2 }.first(2), 2**100, "häß"[1], 10.digits, 1r / 3
case {name: "a", tags: [1, 2]}
in {name: String => n, tags: [*, 2]} then p n
end
p (begin; Comparable.instance_method(:clamp); rescue => e; e; end).class
def deep(n) = n.zero? ? 0 : 1 + deep(n - 1)
p deep(5000)
left = File.open("left.txt", "w")
left.write("flushed")
`), 0, `{"ü":[1,null,1.5]}
{"a" => [1]}
#<Set: {1, 2}>
1970-01-01T00:00:00Z
[{"a" => "1", "b" => "2"}]
---
k:
- 1
2
2d711642
-2
round
true
1
2
:done
1
[2, 4]
1267650600228229401496703205376
"ä"
[0, 1]
(1/3)
"a"
UnboundMethod
5000
`, "")
	if got := s.content("left.txt"); got != "flushed" {
		t.Errorf("a file that was left open: %q", got)
	}
	s.expect(s.ruby("f = File.open('one.txt', 'w')\nf.write('kept')"), 0, "", "")
	if got := s.content("one.txt"); got != "kept" {
		t.Errorf("the only file that was left open: %q", got)
	}
	o := s.ruby("require 'minitest/autorun'\nclass T < Minitest::Test\n  def test_a = assert_equal(1, 1)\n  def test_b = assert_equal(1, 2)\nend")
	if o.Code != 1 || !strings.Contains(o.stdout, "2 runs, 2 assertions, 1 failures, 0 errors, 0 skips") {
		t.Errorf("minitest: %+v", o)
	}
}

func TestRubyWhatIsNotThere(t *testing.T) {
	s := newSandbox(t)
	s.expect(s.ruby(`
def attempt
  p yield
rescue Exception => e
  puts "#{e.class}: #{e.message}"
end
attempt { `+"`ls -l`"+` }
attempt { system("ls", "-l") }
attempt { system("ls", exception: true) }
attempt { IO.popen(["ls", "-l"]) }
attempt { Process.spawn("ls") }
attempt { exec("ls") }
attempt { fork }
attempt { Thread.new { 1 } }
attempt { require "socket" }
attempt { require "net/http" }
attempt { require "nonesuch" }
`), 0, `Errno::ENOTSUP: Not supported - this sandbox cannot start processes: ls -l
nil
Errno::ENOTSUP: Not supported - this sandbox cannot start processes: ls
Errno::ENOTSUP: Not supported - this sandbox cannot start processes: ls -l
Errno::ENOTSUP: Not supported - this sandbox cannot start processes: ls
Errno::ENOTSUP: Not supported - this sandbox cannot start processes: ls
NotImplementedError: fork() function is unimplemented on this machine
NotImplementedError: initialize() function is unimplemented on this machine
LoadError: cannot load such file -- socket
LoadError: cannot load such file -- socket
LoadError: cannot load such file -- nonesuch
`, "system: this sandbox cannot start processes: ls -l\n")
}

// The build comes with a bridge to JavaScript, which leads nowhere here.
func TestRubyWithoutJavaScript(t *testing.T) {
	s := newSandbox(t)
	o := s.ruby("puts 'before'\nrequire 'js'\nJS.eval('return 1')")
	if o.Code != 139 || o.Err == nil || !strings.Contains(o.Err.Error(), "no JavaScript") || o.stdout != "before\n" {
		t.Errorf("%+v", o)
	}
}

func TestRubyEscapesAreRefused(t *testing.T) {
	s := newSandbox(t)
	secret := filepath.Dir(s.data) + "/secret"
	if err := os.WriteFile(secret, []byte("secret"), 0o644); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.Remove(secret) })
	o := s.ruby(`
def attempt(name)
  puts "#{name} GOT #{yield}"
rescue SystemCallError => e
  puts "#{name} #{e.class}"
end
attempt("dotdot") { File.read("../secret") }
attempt("absolute") { File.read("/etc/passwd") }
attempt("symlink") { File.symlink("../secret", "x"); File.read("x") }
attempt("entry") { File.write("/run/caisson/main.rb", "") }
attempt("root") { File.write("/new", "") }
attempt("chdir") { Dir.chdir("/"); File.read("etc/passwd") }
`)
	if strings.Contains(o.stdout, "GOT") || strings.Contains(o.stdout, "secret ") || strings.Count(o.stdout, "\n") != 6 || o.Code != 0 {
		t.Errorf("an escape worked: %+v", o)
	}
}

// What a program does to the interpreter ends with it.
func TestRubyRunsShareNothing(t *testing.T) {
	s := newSandbox(t)
	s.expect(s.ruby("$x = 1\nclass String\n  def length = 42\nend\nENV['X'] = '1'\nFile.write('/tmp/t', '')\nat_exit { }\nputs 'ab'.length"), 0, "42\n", "")
	s.expect(s.ruby("p $x, 'ab'.length, ENV['X'], Dir.children('/tmp')"), 0, "nil\n2\nnil\n[]\n", "")
	in, err := shared.interpreter(context.Background(), packs.Ruby)
	if err != nil {
		t.Fatal(err)
	}
	if m := in.(*ruby.Interpreter).Machine(); m.ImageBytes() == 0 {
		t.Error("runs do not start from an image")
	}
}

func BenchmarkRubyHello(b *testing.B) {
	need(b, "ruby")
	s := newSandbox(b)
	for name, source := range map[string]string{"hello": "puts 1", "json": "require 'json'\nputs 1"} {
		p := s.program("ruby", "main.rb", source)
		b.Run("wasm/"+name, func(b *testing.B) {
			for b.Loop() {
				if o := s.run(context.Background(), p); o.stdout != "1\n" {
					b.Fatalf("%+v", o)
				}
			}
		})
		b.Run("native/"+name, func(b *testing.B) { native(b, "ruby", "-e", source) })
	}
}
