package interp

import (
	"context"
	"testing"
	"time"
)

// bash runs a script that may use every other interpreter.
func (s *sandbox) bash(script string, args ...string) out {
	s.t.Helper()
	need(s.t, "bash")
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	return s.run(ctx, s.program("bash", "main.sh", script, args...))
}

// Other interpreters are commands: they share the files, the directory and the
// environment of the script, and its pipes.
func TestBashRunsPrograms(t *testing.T) {
	need(t, "python3")
	need(t, "node")
	for name, tc := range map[string]struct{ script, stdout string }{
		"output":      {`python3 -c 'print(6 * 7)'`, "42\n"},
		"arguments":   {`python3 -c 'import sys; print(sys.argv[1:])' 'a b' "" '$x'`, "['a b', '', '$x']\n"},
		"pipe in":     {`seq 5 | python3 -c 'import sys; print(sum(int(l) for l in sys.stdin))'`, "15\n"},
		"pipe out":    {`python3 -c 'for i in range(3): print(i)' | tac`, "2\n1\n0\n"},
		"two":         {`python3 -c 'print("a")' | python3 -c 'print(input() + "b")'`, "ab\n"},
		"to a file":   {`seq 3 | python3 -c 'import sys; print(sys.stdin.read().split())' > f; cat f`, "['1', '2', '3']\n"},
		"from a file": {`echo in > f; python3 -c 'print(input())' < f`, "in\n"},
		"captured":    {`x=$(node -e 'console.log(1 + 1)'); echo "<$x>"`, "<2>\n"},
		"exit code":   {`python3 -c 'import sys; sys.exit(3)'; echo $?`, "3\n"},
		"environment": {`export A=1; B=2 python3 -c 'import os; print(os.environ["A"], os.environ["B"])'`, "1 2\n"},
		"directory":   {`mkdir d; cd d; echo 'import os; print(os.getcwd())' > s.py; python3 s.py; cd ..; python3 d/s.py`, "/mnt/data/d\n/mnt/data\n"},
		"here":        {"python3 - <<'PY'\nprint('from here')\nPY", "from here\n"},
		"stdin code":  {`echo 'print("code")' | python3`, "code\n"},
		"files":       {`echo x > a; python3 -c 'open("b", "w").write(open("a").read() * 2)'; cat b; rm a b; ls`, "x\nx\n"},
		"broken pipe": {`python3 -c 'while True: print("y")' | head -2`, "y\ny\n"},
		"shebang":     {`printf '#!/usr/bin/env python3\nprint("script")\n' > s; chmod +x s; ./s`, "script\n"},
		"background":  {`python3 -c 'print("bg")' & wait; echo done`, "bg\ndone\n"},
		"timeout":     {`timeout 0.3 python3 -c 'while True: pass'; echo $?`, "124\n"},
		"many":        {`for i in 1 2 3; do python3 -c "print($i*$i)"; done; seq 5 | python3 -c "import sys; print(sum(int(l) for l in sys.stdin))" > sum.txt; cat sum.txt; python3 -c 'open("made.txt","w").write("x")'; cat made.txt; echo $(python3 -c "import sys; sys.exit(3)") $?; python3 -c "while True: print(1)" | head -2`, "1\n4\n9\n15\nx0\n1\n1\n"},
		"xargs":       {`echo 'print(7)' > p.py; echo p.py | xargs python3; find . -name '*.py' -exec python3 {} \;`, "7\n7\n"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSandbox(t)
			s.expect(s.bash(tc.script), 0, tc.stdout, "")
		})
	}
}
