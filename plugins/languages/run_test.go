package main

import (
	"cmp"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/caisson-run/caisson/sdk/language"
)

// programs print each of their arguments on a line, and what a helper in the data
// directory says where the language can import one from there. They are those of a
// language, or of one of its toolchains.
var programs = map[string]struct {
	needs   []string // commands beside that of the first step
	program string
	helper  [2]string // file and text
}{
	"py": {nil, `
import sys, helper
print(helper.word)
for a in sys.argv[1:]: print(a.replace("\n", "\\n"))
assert __name__ == "__main__" and __file__
`, [2]string{"helper.py", "word = 'helped'\n"}},
	"js": {nil, `
console.log(require("helper").word);
for (const a of process.argv.slice(2)) console.log(JSON.stringify(a).slice(1, -1).replace(/\\"/g, '"'));
`, [2]string{"helper.js", "exports.word = 'helped'\n"}},
	"ts by esbuild": {[]string{"node"}, `
import { word } from "helper";
const fs = require("node:fs");
await Promise.resolve();
enum Kind { Read = 2 }
for (const line of [word, ...process.argv.slice(Kind.Read) as string[]]) fs.writeSync(1, line.replace(/\n/g, "\\n") + "\n");
`, [2]string{"helper.ts", "export const word: string = 'helped'\n"}},
	"c": {nil, `
#include <stdio.h>
#include <math.h>
#include "helper.h"
int main(int n, char **v) {
	puts(WORD);
	for (int i = 1; i < n; i++) { for (char *c = v[i]; *c; c++) if (*c == '\n') fputs("\\n", stdout); else putchar(*c); putchar('\n'); }
	return sqrt(n) < 0;
}
`, [2]string{"helper.h", "#define WORD \"helped\"\n"}},
	"cpp": {nil, `
#include <iostream>
#include <string>
#include "helper.h"
int main(int n, char **v) {
	std::cout << WORD << "\n";
	for (int i = 1; i < n; i++) { for (char c : std::string(v[i])) if (c == '\n') std::cout << "\\n"; else std::cout << c; std::cout << "\n"; }
}
`, [2]string{"helper.h", "#define WORD \"helped\"\n"}},
	"java": {[]string{"javac"}, `
public class AnyName {
	public static void main(String[] args) {
		System.out.println("helped");
		for (String a : args) System.out.println(a.replace("\n", "\\n"));
	}
}
`, [2]string{}},
	"rs": {[]string{"cc"}, `
fn main() {
	println!("helped");
	for a in std::env::args().skip(1) { println!("{}", a.replace("\n", "\\n")); }
}
`, [2]string{}},
	"go": {nil, `
package main

import (
	"os"
	"strings"
)

func main() {
	os.Stdout.WriteString("helped\n")
	for _, a := range os.Args[1:] { os.Stdout.WriteString(strings.ReplaceAll(a, "\n", "\\n") + "\n") }
}
`, [2]string{}},
	"d": {nil, `
import std.stdio, std.array, helper;
void main(string[] args) {
	writeln(word);
	foreach (a; args[1 .. $]) writeln(a.replace("\n", "\\n"));
}
`, [2]string{"helper.d", "module helper; enum word = \"helped\";\n"}},
	"f90": {nil, `
program main
	include "helper.inc"
	character(len=100) :: a
	integer :: i, n, c
	print "(a)", word
	do i = 1, command_argument_count()
		call get_command_argument(i, a, n)
		do c = 1, n
			if (a(c:c) == char(10)) then
				write (*, "(a)", advance="no") "\n"
			else
				write (*, "(a)", advance="no") a(c:c)
			end if
		end do
		print *
	end do
end program
`, [2]string{"helper.inc", "character(len=6), parameter :: word = 'helped'\n"}},
	"r": {nil, `
source("helper.R")
writeLines(word)
for (a in commandArgs(trailingOnly = TRUE)) writeLines(gsub("\n", "\\n", a, fixed = TRUE))
`, [2]string{"helper.R", "word <- 'helped'\n"}},
	"bash": {nil, `
source helper.sh
echo "$word"
for a; do printf '%s\n' "${a//$'\n'/\\n}"; done
`, [2]string{"helper.sh", "word=helped\n"}},
	"rb": {nil, `
require "helper"
puts WORD
ARGV.each { |a| puts a.gsub("\n", "\\n") }
`, [2]string{"helper.rb", "WORD = 'helped'\n"}},
	"php": {nil, `<?php
require "helper.php";
echo WORD, "\n";
foreach (array_slice($argv, 1) as $a) echo str_replace("\n", "\\n", $a), "\n";
`, [2]string{"helper.php", "<?php const WORD = 'helped';\n"}},
	"sql": {nil, "select 'helped';\n", [2]string{}},
}

// nasty arguments look like options, sources, response files and commands.
var nasty = []string{"a b", "-e", "--args", "--gui=none", "-v", "--version", "--", "x.go", "@x", "-", "$(id)", "a\nb", `it's "q"`, "{dir}", "é"}

// TestPlansRun carries plans out, with the toolchains this machine has: the program
// must get exactly the arguments it was given, and nothing may appear in the data
// directory. The go command is always there; CI has more.
func TestPlansRun(t *testing.T) {
	for _, row := range recipes {
		name := row.language + " by " + row.toolchain
		p, ok := programs[name]
		if !ok {
			p, ok = programs[row.language]
		}
		if !ok || missing(append([]string{row.run[0]}, p.needs...)) || len(row.build) > 0 && missing(row.build[:1]) {
			continue
		}
		t.Run(name, func(t *testing.T) {
			args := nasty
			if row.takesNoArgs {
				args = nil
			}
			got := carryOut(t, &row, p.program, p.helper, args)
			want := "helped\n"
			for _, a := range args {
				want += strings.ReplaceAll(a, "\n", `\n`) + "\n"
			}
			if got != want {
				t.Errorf("got  %q\nwant %q", got, want)
			}
		})
	}
}

// missing reports whether one of the commands is not there. What a plan builds is.
func missing(commands []string) bool {
	return slices.ContainsFunc(commands, func(c string) bool {
		_, err := exec.LookPath(c)
		return err != nil && !strings.HasPrefix(c, language.Dir)
	})
}

func carryOut(t *testing.T, row *recipe, program string, helper [2]string, args []string) string {
	t.Helper()
	dir, work := t.TempDir(), t.TempDir()
	p, err := row.plan(args)
	if err != nil {
		t.Fatal(err)
	}
	here := strings.NewReplacer(language.Dir, dir, data, work).Replace
	write(t, filepath.Join(dir, p.File), program)
	if helper[0] != "" {
		write(t, filepath.Join(work, helper[0]), helper[1])
	}
	env := []string{"PATH=" + os.Getenv("PATH"), "HOME=" + work, "TMPDIR=" + dir, "LANG=C.UTF-8", "GOCACHE=" + goCache(t)}
	// Where version managers keep what the commands in PATH only stand for.
	home, err := os.UserHomeDir()
	if err != nil {
		t.Fatal(err)
	}
	for name, standard := range map[string]string{"RUSTUP_HOME": ".rustup", "PYENV_ROOT": ".pyenv"} {
		env = append(env, name+"="+cmp.Or(os.Getenv(name), filepath.Join(home, standard)))
	}
	for name, value := range p.Env {
		if name != "GOCACHE" { // an empty one takes half a minute to fill
			env = append(env, name+"="+here(value))
		}
	}
	var out []byte
	for _, s := range p.Steps {
		var argv []string
		for _, a := range s.Argv {
			argv = append(argv, here(a))
		}
		argv = append(argv, s.Args...)
		cmd := exec.CommandContext(t.Context(), argv[0], argv[1:]...)
		cmd.Dir, cmd.Env = work, env
		var said strings.Builder
		cmd.Stderr = &said
		if out, err = cmd.Output(); err != nil {
			t.Fatalf("%q: %v\n%s", argv, err, said.String())
		}
	}
	files, err := os.ReadDir(work)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		if f.Name() != helper[0] {
			t.Errorf("%s appeared in the data directory", f.Name())
		}
	}
	return string(out)
}

func write(t *testing.T, name, text string) {
	t.Helper()
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func goCache(t *testing.T) string {
	t.Helper()
	out, err := exec.CommandContext(context.WithoutCancel(t.Context()), "go", "env", "GOCACHE").Output()
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(out))
}
