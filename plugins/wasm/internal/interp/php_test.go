package interp

import (
	"context"
	"strings"
	"testing"
)

func (s *sandbox) php(source string, args ...string) out {
	s.t.Helper()
	need(s.t, "php")
	return s.run(context.Background(), s.program("php", "main.php", "<?php\n"+source, args...))
}

// The build is for web servers, and programs can tell a web server from a command
// line in many ways.
func TestPHPIsTheCommandLine(t *testing.T) {
	s := newSandbox(t)
	s.file("helper.php", "<?php return basename(__FILE__);")
	p := s.program("php", "main.php", `<?php
echo PHP_SAPI, ' ', php_sapi_name(), ' ', $argc, ' ', getcwd(), ' ', count($_GET), "\n";
header('X-Header: ignored');
echo $_SERVER['argv'][1], ' ', $_SERVER['PHP_SELF'], ' ', $_SERVER['SCRIPT_NAME'], ' ', __FILE__, "\n";
echo ini_get('max_execution_time'), ' ', ini_get('html_errors'), ' ', ini_get('include_path'), ' ', ini_get('precision'), "\n";
echo getenv('A'), ' ', $_SERVER['A'], ' ', $_ENV['A'], ' ', sys_get_temp_dir(), "\n";
echo include 'helper.php', "\n";
fwrite(STDOUT, "standard output\n");
fwrite(STDERR, "standard error\n");
`, "a=1&b[]=2", "c d")
	need(t, "php")
	p.Argv = append([]string{"php", "-d", "include_path=.:/mnt/data", "-d", "precision=5"}, p.Argv[1:]...)
	p.Env = map[string]string{"A": "b ✓"}
	s.expect(s.run(context.Background(), p), 0, `cli cli 3 /mnt/data 0
a=1&b[]=2 /run/caisson/main.php /run/caisson/main.php /run/caisson/main.php
0 0 .:/mnt/data 5
b ✓ b ✓ b ✓ /tmp
helper.php
standard output
`, "standard error\n")

	p.Argv = []string{"php", "-d", "precision=4", "-r", `echo 1 / 3, ' ', $argv[1], "\n";`, "--", "-x"}
	s.expect(s.run(context.Background(), p), 0, "0.3333 -x\n", "")
	p.Argv = []string{"php", "-r"}
	if _, err := shared.Run(context.Background(), p); err == nil || !strings.Contains(err.Error(), "-r: no code") {
		t.Errorf("-r without code: %v", err)
	}
}

// Errors go to standard error, as they do where php.ini is made for production, and
// to standard output as well where a program says so.
func TestPHPErrors(t *testing.T) {
	s := newSandbox(t)
	for name, tc := range map[string]struct {
		source         string
		code           int
		stdout, stderr string
	}{
		"warning": {"echo $undefined, 'on'; ", 0, "on", "PHP Warning:  Undefined variable $undefined in /run/caisson/main.php on line 2\n"},
		"shown":   {"ini_set('display_errors', 1); echo $u;", 0, "\nWarning: Undefined variable $u in /run/caisson/main.php on line 2\n", "PHP Warning:  Undefined variable $u in /run/caisson/main.php on line 2\n"},
		"uncaught": {"function f($x) { throw new RuntimeException('boom'); }\nf('y');", 255, "", `PHP Fatal error:  Uncaught RuntimeException: boom in /run/caisson/main.php:2
Stack trace:
#0 /run/caisson/main.php(3): f('y')
#1 {main}
  thrown in /run/caisson/main.php on line 2
`},
		"parse":     {"echo 'a' echo;", 255, "", "PHP Parse error:  syntax error, unexpected token \"echo\", expecting \",\" or \";\" in /run/caisson/main.php on line 2\n"},
		"compile":   {"class A extends A {}\nabstract class B { abstract function f() {} }", 255, "", "PHP Fatal error:  Abstract function B::f() cannot contain body in /run/caisson/main.php on line 3\n"},
		"exit":      {"exit('a message');", 0, "a message", ""},
		"exit code": {"echo 'x'; exit(300);", 44, "x", ""},
		"error_log": {"error_log('logged');", 0, "", "logged\n"},
		"log twice": {"file_put_contents('php://stderr', \"a\\n\"); file_put_contents('php://stderr', \"b\\n\"); error_log('c');", 0, "", "a\nb\nc\n"},
		"stdout":    {"$f = fopen('php://stdout', 'w'); fwrite($f, 'a '); fclose($f); file_put_contents('n', 'n'); echo 'b';", 0, "a b", ""},
		"match":     {"echo match(1) { 2 => 3 };", 255, "", "PHP Fatal error:  Uncaught UnhandledMatchError: Unhandled match case 1 in /run/caisson/main.php:2\nStack trace:\n#0 {main}\n  thrown in /run/caisson/main.php on line 2\n"},
	} {
		t.Run(name, func(t *testing.T) {
			s.t = t
			s.expect(s.php(tc.source), tc.code, tc.stdout, tc.stderr)
		})
	}
}

// A fatal error is not the end: shutdown functions run, and what was buffered is
// written. The build traps there, and is taken on from outside.
func TestPHPFatal(t *testing.T) {
	const shutdown = `register_shutdown_function(function () { echo 'shutdown: ', error_get_last()['message'] ?? 'no error', "\n"; });
ob_start();
echo "buffered\n";
`
	s := newSandbox(t)
	for name, tc := range map[string]struct {
		source         string
		code           int
		stdout, stderr string
	}{
		"error":            {"trigger_error('bad', E_USER_ERROR);", 255, "buffered\nshutdown: bad\n", "PHP Fatal error:  bad in /run/caisson/main.php on line 5\n"},
		"memory":           {"$x = str_repeat('x', 1 << 30);", 255, "shutdown: Allowed memory size of", "PHP Fatal error:  Allowed memory size of"},
		"exception":        {"class A { function __destruct() { echo 'gone'; } } $a = new A; throw new Exception('e');", 255, "buffered\nshutdown: Uncaught Exception: e in", "PHP Fatal error:  Uncaught Exception: e in /run/caisson/main.php:5\n"},
		"exit":             {"exit(3);", 3, "buffered\nshutdown: no error\n", ""},
		"exit at shutdown": {"register_shutdown_function(fn() => exit(4)); register_shutdown_function(function () { echo 'never'; });", 4, "buffered\nshutdown: no error\n", ""},
		"error within":     {"register_shutdown_function(function () { echo \"within\\n\"; trigger_error('again', E_USER_ERROR); }); trigger_error('bad', E_USER_ERROR);", 255, "buffered\nshutdown: bad\nwithin\n", "PHP Fatal error:  bad in /run/caisson/main.php on line 5\nPHP Fatal error:  again in /run/caisson/main.php on line 5\n"},
	} {
		t.Run(name, func(t *testing.T) {
			s.t = t
			o := s.php(shutdown + tc.source)
			if o.Code != tc.code || o.Reason != ReasonExit || o.Err != nil || !strings.HasPrefix(o.stdout, tc.stdout) || !strings.HasPrefix(o.stderr, tc.stderr) || tc.stderr == "" && o.stderr != "" {
				t.Errorf("code %d, reason %s (%v)\n-- stdout:\n%s\n-- stderr:\n%s", o.Code, o.Reason, o.Err, o.stdout, o.stderr)
			}
		})
	}
	// What is no error of PHP is a crash, and says so.
	s.t = t
	need(t, "php")
	p := s.program("php", "main.php", "<?php (new Fiber(fn() => 1))->start();")
	p.Argv = append([]string{"php", "-d", "disable_classes="}, p.Argv[1:]...)
	if o := s.run(context.Background(), p); o.Code != 134 || o.Err == nil {
		t.Errorf("a crash: %+v", o)
	}
}

// A program may lift its limit; the limit of the run remains.
func TestPHPWithoutMemoryLimit(t *testing.T) {
	s := newSandbox(t)
	need(t, "php")
	p := s.program("php", "main.php", "<?php ini_set('memory_limit', -1); $x = []; while (true) $x[] = str_repeat('x', 3 << 20);")
	p.MemoryBytes = 96 << 20
	if o := s.run(context.Background(), p); o.Reason != ReasonMemory || !o.MemoryLimited || o.PeakMemoryBytes > p.MemoryBytes {
		t.Errorf("%+v", o)
	}
}

func TestPHPFiles(t *testing.T) {
	s := newSandbox(t)
	s.expect(s.php(`
$db = new PDO('sqlite:t.db');
$db->exec('create table t(x)');
$db->prepare('insert into t values (?)')->execute(['ü']);
echo json_encode($db->query('select x from t')->fetchAll(PDO::FETCH_COLUMN), JSON_UNESCAPED_UNICODE), "\n";
$f = fopen('a.csv', 'w');
fputcsv($f, ['a', 'b c', 'd"e']);
fclose($f);
echo file_get_contents('a.csv');
$t = tmpfile();
$u = tmpfile();
fwrite($t, 'mine');
rewind($t);
echo fread($t, 9), fread($u, 9), tempnam('/tmp', 'x') === tempnam('/tmp', 'x') ? 'same' : 'different', "\n";
symlink('a.csv', 'link');
echo readlink('link'), ' ', realpath('link'), "\n";
print_r(glob('*.csv'));
echo is_resource(opendir('/')) ? 'root' : '', implode(',', array_diff(scandir('/'), ['.', '..'])), "\n";
foreach (['/etc/passwd', '../secret', '/run/caisson/main.php', '/x'] as $name) var_dump(@file_put_contents($name, 'x'));
var_dump(@symlink('../../secret', 'out'), @file_get_contents('/etc/passwd'));
$open = fopen('left.txt', 'w');
fwrite($open, 'flushed');
`), 0, `["ü"]
a,"b c","d""e"
minedifferent
a.csv /mnt/data/a.csv
Array
(
    [0] => a.csv
)
rootmnt,run,tmp
bool(false)
bool(false)
bool(false)
bool(false)
bool(false)
bool(false)
`, "")
	if got := s.content("left.txt"); got != "flushed" {
		t.Errorf("a file that was left open: %q", got)
	}
}

// What cannot work says why.
func TestPHPWhatIsNotThere(t *testing.T) {
	s := newSandbox(t)
	o := s.php(`
exec('ls'); system('ls'); passthru('ls'); popen('ls', 'r'); mail('a', 'b', 'c');
echo ` + "`ls`" + `, gethostbyname('example.org'), "\n";
var_dump(file_get_contents('http://example.org'), fsockopen('example.org', 80), file_get_contents('https://example.org'));
`)
	if o.Code != 0 || o.stdout != "example.org\nbool(false)\nbool(false)\nbool(false)\n" || strings.Count(o.stderr, "this sandbox cannot start processes: ls in /") != 5 || strings.Count(o.stderr, "\n") != 10 {
		t.Errorf("code %d, stdout %q, stderr %q", o.Code, o.stdout, o.stderr)
	}
}

func BenchmarkPHPHello(b *testing.B) {
	need(b, "php")
	s := newSandbox(b)
	p := s.program("php", "main.php", "<?php echo 1;")
	b.Run("wasm", func(b *testing.B) {
		for b.Loop() {
			if o := s.run(context.Background(), p); o.stdout != "1" {
				b.Fatalf("%+v", o)
			}
		}
	})
	b.Run("native", func(b *testing.B) { native(b, "php", "-n", "-r", "echo 1;") })
}
