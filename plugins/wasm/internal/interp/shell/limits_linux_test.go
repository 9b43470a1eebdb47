package shell

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/caisson-run/caisson/plugins/wasm/internal/interp/guest"
	"github.com/caisson-run/caisson/plugins/wasm/internal/interp/shell/worker"
)

// A script that does not end by itself ends with its context, whatever it is
// doing.
func TestDeadline(t *testing.T) {
	in := newInterpreter(t, Config{})
	for name, script := range map[string]string{
		"loop":        `while :; do :; done`,
		"arithmetic":  `for ((;;)); do ((x++)); done`,
		"sleep":       `sleep 1000`,
		"subshells":   `while :; do (:); done`,
		"pipeline":    `yes | cat > /dev/null`,
		"background":  `while :; do :; done & wait`,
		"read":        `mkfifo x 2>/dev/null; cat /dev/zero > /dev/null`,
		"substituted": `x=$(yes)`,
		"regexp":      `yes aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa | grep -E '(a+)+b'`,
		"awk":         `awk 'BEGIN { while (1) x++ }'`,
		"jq":          `jq -n '[recurse(. + 1; true)] | length' <<< 0; jq -n 'def f: f; f'`,
		"sed":         `echo a | sed ':a;s/a/a/;ta'`,
		"sort":        `yes | sort`,
		"bc":          `echo '9^9^9^9^9' | bc; while :; do echo '2^100000' | bc > /dev/null; done`,
		"find":        `while :; do find / > /dev/null; done`,
		"seq":         `seq 1e300 > /dev/null; seq 1 999999999999 > /dev/null`,
		"trap":        `trap 'while :; do :; done' EXIT; exit`,
		"pipes":       `cat <(sleep 1000)`,
		"forks":       `:(){ :|:& };:; f() { f & f; }; f; sleep 1000`,
		"read a lot":  `yes | tr -d '\n' | read -r x`,
		"glob":        `x=$(printf '*a%.0s' {1..2000}); touch $(printf 'a%.0s' {1..200}); while :; do : $x; done`,
	} {
		t.Run(name, func(t *testing.T) {
			s := newSandbox(t, in)
			ctx, cancel := context.WithTimeout(context.Background(), 600*time.Millisecond)
			defer cancel()
			o := s.run(ctx, s.program("echo started; "+script))
			// Some end at the limit on memory before.
			if o.Reason != guest.ReasonTimeout && o.Reason != guest.ReasonMemory || o.Code != guest.CodeKilled || o.Err == nil || o.stdout != "started\n" {
				t.Errorf("reason %s, code %d (%v), stdout %.100q, stderr %.300q", o.Reason, o.Code, o.Err, o.stdout, o.stderr)
			}
		})
	}
}

func TestCancel(t *testing.T) {
	s := newSandbox(t, newInterpreter(t, Config{}))
	gone := errors.New("the caller is gone")
	ctx, cancel := context.WithCancelCause(context.Background())
	p := s.program("echo started; while :; do sleep 1; done")
	p.Stdout = writerFunc(func(b []byte) (int, error) {
		cancel(gone)
		return len(b), nil
	})
	if o := s.run(ctx, p); o.Reason != guest.ReasonCanceled || o.Code != guest.CodeKilled || !errors.Is(o.Err, gone) {
		t.Errorf("%+v", o.Result)
	}
}

// What uses up memory ends for that reason, and the next script runs.
func TestMemory(t *testing.T) {
	s := newSandbox(t, newInterpreter(t, Config{}))
	for name, script := range map[string]string{
		"doubling":     `x=a; while :; do x=$x$x; done`,
		"array":        `while :; do a+=("$(printf '%0100000d' 1)"); done`,
		"substitution": `x=$(yes | head -c 1G)`,
		"sort":         `yes abcdefgh | sort > /dev/null`,
		"awk":          `awk 'BEGIN { x = "a"; while (1) x = x x }'`,
		"jq":           `jq -n '[range(1e9)]' > /dev/null`,
	} {
		t.Run(name, func(t *testing.T) {
			p := s.program("echo started; " + script)
			p.MemoryBytes = 256 << 20
			ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
			defer cancel()
			o := s.run(ctx, p)
			if o.Reason != guest.ReasonMemory || o.Code != guest.CodeKilled || !o.MemoryLimited || o.stdout != "started\n" {
				t.Errorf("reason %s, code %d (%v), stdout %.100q, stderr %.300q", o.Reason, o.Code, o.Err, o.stdout, o.stderr)
			}
			if o.PeakMemoryBytes > p.MemoryBytes+worker.ExtraBytes+64<<20 { // what the program itself is made of does not count
				t.Errorf("used %d of %d", o.PeakMemoryBytes, p.MemoryBytes)
			}
		})
	}
	s.expect(s.script("echo next"), 0, "next\n", "")
}

func TestRecursion(t *testing.T) {
	s := newSandbox(t, newInterpreter(t, Config{}))
	s.file("self.sh", "bash self.sh")
	s.file("source.sh", ". ./source.sh")
	for name, script := range map[string]string{
		"function": `f() { f; }; f`,
		"script":   `bash self.sh`,
		"eval":     `e='eval "$e"'; eval "$e"`,
		"trap":     `f() { $(f); }; f`,
	} {
		t.Run(name, func(t *testing.T) {
			o := s.script("echo started; " + script)
			if o.Reason != guest.ReasonExit || o.Code != guest.CodeCrashed || o.Err == nil || o.stdout != "started\n" || !strings.Contains(o.stderr, "bash: the script recursed too deep\n") {
				t.Errorf("reason %s, code %d (%v), stdout %q, stderr %.300q", o.Reason, o.Code, o.Err, o.stdout, o.stderr)
			}
		})
	}
	if o := s.script(". ./source.sh"); o.Code != 1 || !strings.Contains(o.stderr, "Too many open files") {
		t.Errorf("source: %+v, %q", o.Result, o.stderr)
	}
	// What is deep but ends is fine.
	s.expect(s.script(`f() { (($1 == 0)) && { echo bottom; return; }; f $(($1 - 1)); }; f 1000`), 0, "bottom\n", "")
}

func TestProcessorTime(t *testing.T) {
	s := newSandbox(t, newInterpreter(t, Config{}))
	p := s.program("echo started; while :; do :; done")
	p.FuelLimit = guest.Fuel(time.Second)
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	if o := s.run(ctx, p); o.Reason != guest.ReasonCPU || o.Code != guest.CodeKilled || o.Err == nil || o.Fuel < p.FuelLimit {
		t.Errorf("%+v", o.Result)
	}
}

// A script is charged for what it stores, like every program.
func TestQuota(t *testing.T) {
	s := newSandbox(t, newInterpreter(t, Config{}))
	o := s.script(`head -c 60M /dev/zero > big && echo fits; head -c 10M /dev/zero > more || echo full; rm big; df | tail -1 | tr -s ' ' | cut -d' ' -f5; head -c 10M /dev/zero > more && echo again; truncate -s 1T sparse || echo sparse; for i in $(seq 3000); do : > "f$i" || { echo many; break; }; done 2> /dev/null`)
	if o.Code != 0 || o.stdout != "fits\nfull\n7%\nagain\nsparse\nmany\n" {
		t.Errorf("code %d\n%s\n%s", o.Code, o.stdout, o.stderr)
	}
	var bytes, entries int64
	err := filepath.Walk(s.dir, func(p string, info os.FileInfo, err error) error {
		if err == nil && p != s.dir {
			entries++
			bytes += info.Size()
		}
		return err
	})
	if used, n := s.quota.Used(); err != nil || used != bytes || n != entries {
		t.Errorf("the account has %d bytes and %d entries, the directory %d and %d: %v", used, n, bytes, entries, err)
	}
}

// A command whose output finds no room says so once, and does not blame its input.
func TestFullDisk(t *testing.T) {
	s := newSandbox(t, newInterpreter(t, Config{}))
	for script, want := range map[string]string{
		`yes > big; echo $?`:                   "yes: standard output: No space left on device\n",
		`head -c 70M /dev/zero > big; echo $?`: "head: write error: No space left on device\n",
		`yes | cat > big; echo $?`:             "cat: write error: No space left on device\n",
	} {
		s.expect(s.script(script), 0, "1\n", want)
	}
}

func TestStreams(t *testing.T) {
	s := newSandbox(t, newInterpreter(t, Config{}))
	// Output is passed on while the script runs, and as much as there is.
	total := 0
	p := s.program(`yes "$(printf '%1023s' x)" | head -n 10240`)
	p.Stdout = writerFunc(func(b []byte) (int, error) {
		total += len(b)
		return len(b), nil
	})
	if o := s.run(context.Background(), p); o.Code != 0 || total != 10<<20 {
		t.Errorf("%+v, %d bytes", o.Result, total)
	}
	// A caller that is gone is no reason to fail.
	p.Stdout = writerFunc(func([]byte) (int, error) { return 0, io.ErrClosedPipe })
	if o := s.run(context.Background(), p); o.Code != 0 || !errors.Is(o.OutputErr, io.ErrClosedPipe) {
		t.Errorf("%+v", o.Result)
	}
	p = s.program(`read -r a; echo "<$a>"; cat`)
	p.Stdin = strings.NewReader("first\nrest\nof it")
	s.expect(s.run(context.Background(), p), 0, "<first>\nrest\nof it", "")
	// Input that never comes ends with the script that does not want it.
	pr, pw := io.Pipe()
	p = s.program(`echo done`)
	p.Stdin = pr
	s.expect(s.run(context.Background(), p), 0, "done\n", "")
	if _, err := pw.Write([]byte("x")); err == nil {
		t.Error("standard input was not closed")
	}
}

// Runs share nothing but the interpreter, and each has a worker of its own.
func TestConcurrentRuns(t *testing.T) {
	in := newInterpreter(t, Config{})
	outs := make(chan string)
	for range 6 {
		go func() {
			s := newSandbox(t, in)
			outs <- s.script(`n=$SRANDOM; echo $n > own; x=$(cat own | sort); [ "$x" = $n ] && echo $n`).stdout
		}()
	}
	seen := map[string]bool{}
	for range 6 {
		n := <-outs
		if n == "" || seen[n] {
			t.Errorf("got %q", n)
		}
		seen[n] = true
	}
}

func TestBadWorkers(t *testing.T) {
	for name, command := range map[string][]string{
		"absent": {"/nonexistent/worker"}, "ends": {"/bin/true"}, "silent": {"/bin/echo", "no message"},
	} {
		if _, err := New(Config{Command: command, Dir: t.TempDir()}); err == nil {
			t.Errorf("%s: was taken for a worker", name)
		}
	}
	if _, err := New(Config{}); err == nil {
		t.Error("no command was accepted")
	}
	// A worker that dies while it waits is replaced.
	s := newSandbox(t, newInterpreter(t, Config{}))
	s.in.mu.Lock()
	p := s.in.spare
	s.in.mu.Unlock()
	p.Kill()
	_ = p.Wait()
	s.expect(s.script("echo alive"), 0, "alive\n", "")
}

func TestRefusedPrograms(t *testing.T) {
	in := newInterpreter(t, Config{})
	s := newSandbox(t, in)
	p := s.program("")
	p.MemoryBytes = 32 << 20
	if _, err := guest.New(context.Background(), p, in.MinMemoryBytes()); err == nil {
		t.Error("a limit below what a worker needs was accepted")
	}
	var stderr bytes.Buffer
	p = s.program("")
	p.Argv[1], p.Stderr = guest.EntryDir+"/absent.sh", &stderr
	if o := s.run(context.Background(), p); o.Code != 127 || stderr.String() != "bash: /run/caisson/absent.sh: No such file or directory\n" {
		t.Errorf("%+v %q", o.Result, stderr.String())
	}
	s.expect(s.script("echo before\nif true; then\n"), 2, "", "bash: /run/caisson/main.sh:2:10: `then` must be followed by a statement list\n")
}

// What expands to more words than the interpreter makes is an error, and a plain range
// works.
func TestBraces(t *testing.T) {
	s := newSandbox(t, newInterpreter(t, Config{}))
	s.expect(s.script("for i in {1..20000}; do :; done; echo $i; echo {1..16384} | wc -w"), 0, "20000\n16384\n", "")
	for _, words := range []string{"x{1..16385}", "{1..200}{1..200}", "{01..20000}", "{a,{1..20000}}", "{-9..99999}{a,b}"} {
		const message = "braces: expansion to more than 16384 words\n"
		s.expect(s.script("echo before\necho "+words+"\necho after"), 1, "before\n", message)
		s.expect(s.script("for i in "+words+"; do echo $i; done; echo after"), 1, "", message)
		s.expect(s.script("a=(1 "+words+"); echo after"), 1, "", message)
		s.expect(s.script("echo '"+words+"'"), 0, words+"\n", "")
	}
}
