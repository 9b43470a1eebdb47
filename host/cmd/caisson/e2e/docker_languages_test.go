package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/caisson-run/caisson/internal/enginetest"
)

// containerPrograms are programs in every published language. Each says hello, prints
// its arguments on a line each, and writes out.txt; broken does not compile, or, where
// nothing is compiled, is refused by the interpreter. The aliases of some are used.
var containerPrograms = []struct{ lang, program, broken string }{
	{"py", `import sys
print("hello", *sys.argv[1:], sep="\n")
open("out.txt", "w").write("written")`, "print('no'\n"},
	{"js", `console.log(["hello", ...process.argv.slice(2)].join("\n"));
require("fs").writeFileSync("out.txt", "written");`, "console.log('no'\n"},
	{"typescript", `import { writeFileSync } from "fs";
const lines: string[] = ["hello", ...process.argv.slice(2)];
console.log(lines.join("\n"));
writeFileSync("out.txt", "written");`, "const s: string = ;\n"},
	{"c", `#include <stdio.h>
int main(int n, char **v) {
	puts("hello");
	for (int i = 1; i < n; i++) puts(v[i]);
	FILE *f = fopen("out.txt", "w");
	return fputs("written", f) < 0 || fclose(f);
}`, "int main(void) { return 0 }\n"},
	{"c++", `#include <fstream>
#include <iostream>
int main(int n, char **v) {
	std::cout << "hello" << std::endl;
	for (int i = 1; i < n; i++) std::cout << v[i] << std::endl;
	std::ofstream("out.txt") << "written";
}`, "int main() { return nothing; }\n"},
	{"java", `import java.nio.file.*;
public class Program {
	public static void main(String[] args) throws Exception {
		System.out.println("hello");
		for (String a : args) System.out.println(a);
		Files.writeString(Path.of("out.txt"), "written");
	}
}`, "class Program { int x = \"no\"; }\n"},
	{"php", `<?php
foreach (["hello", ...array_slice($argv, 1)] as $line) echo $line, "\n";
file_put_contents("out.txt", "written");`, "<?php echo (;\n"},
	{"rust", `fn main() -> std::io::Result<()> {
	println!("hello");
	for a in std::env::args().skip(1) { println!("{}", a); }
	std::fs::write("out.txt", "written")
}`, "fn main() { let x: u8 = \"no\"; }\n"},
	{"go", `package main

import (
	"fmt"
	"os"
)

func main() {
	fmt.Println("hello")
	for _, a := range os.Args[1:] {
		fmt.Println(a)
	}
	if err := os.WriteFile("out.txt", []byte("written"), 0o644); err != nil {
		panic(err)
	}
}`, "package main\n\nfunc main() { unknown() }\n"},
	{"d", `import std.stdio, std.file;
void main(string[] args) {
	writeln("hello");
	foreach (a; args[1 .. $]) writeln(a);
	std.file.write("out.txt", "written");
}`, "void main() { int x = \"no\"; }\n"},
	{"f90", `program main
	character(len=200) :: a
	integer :: i
	print "(a)", "hello"
	do i = 1, command_argument_count()
		call get_command_argument(i, a)
		print "(a)", trim(a)
	end do
	open (unit=1, file="out.txt", access="stream")
	write (1) "written"
	close (1)
end program`, "program main\n\tinteger :: i = \"no\"\nend program\n"},
	{"r", `writeLines(c("hello", commandArgs(trailingOnly = TRUE)))
cat("written", file = "out.txt")`, "cat('no'\n"},
	{"bash", `printf '%s\n' hello "$@"
printf written >out.txt`, "if true\n"},
}

// everyday are the languages that the whole of CI keeps where it would take too long;
// CAISSON_TEST_LANGUAGES=everyday chooses them.
var everyday = []string{"py", "js", "typescript", "bash", "c", "java", "r"}

// dockerConfig is a configuration whose only backend is Docker with an image.
func dockerConfig(image string) string {
	host := os.Getenv("CAISSON_TEST_DOCKER_HOST")
	return fmt.Sprintf(`backends:
  - id: docker
    plugin: docker
    config: {enabled: true, host: %q, image: %q, pull: never}
default_backend: docker
max_limits: {wall: 300s}
`, host, image)
}

// removeContainers removes, once the servers of a test have ended, every container that
// they made. Each of sessions must have one, as these outlive a server.
func removeContainers(t *testing.T, p place, sessions *[]string) {
	t.Helper()
	t.Cleanup(func() {
		names, err := enginetest.Remove(os.Getenv("CAISSON_TEST_DOCKER_HOST"), p.data)
		if err != nil {
			t.Error(err)
		}
		for _, id := range *sessions {
			if !slices.ContainsFunc(names, func(name string) bool { return strings.HasSuffix(name, "_"+id) }) {
				t.Errorf("session %s has no container", id)
			}
		}
	})
}

// dockerServer is a server with the sessions that a test made on it.
type dockerServer struct {
	*server
	sessions []string
}

// fullImage is a server whose programs run in the full image. Its containers, which
// outlive it, go with the test.
func fullImage(t *testing.T) *dockerServer {
	t.Helper()
	image := os.Getenv("CAISSON_TEST_DOCKER_FULL_IMAGE")
	if image == "" {
		t.Skip("CAISSON_TEST_DOCKER_FULL_IMAGE is not set: make test-full runs this")
	}
	p := newPlace(t, "CODE_EXEC_API_KEY="+testKey, "CODE_EXEC_FEE_CENTS=0")
	s := &dockerServer{}
	removeContainers(t, p, &s.sessions)
	s.server = p.serve(t, "--config", p.config(t, dockerConfig(image))).ready(t)
	return s
}

// execute runs a program, in a new session unless one is named, and wants a reply that
// says how it ended.
func (s *dockerServer) execute(t *testing.T, session, lang, code string, args ...string) answer {
	t.Helper()
	body, err := json.Marshal(map[string]any{"lang": lang, "code": code, "args": args, "session_id": session})
	if err != nil {
		t.Fatal(err)
	}
	r := s.must(t, http.MethodPost, "/v1/exec", s.key, string(body))
	if r.status != http.StatusOK {
		t.Fatalf("run: %d %s", r.status, r.body)
	}
	a := decode(t, r.body)
	if !slices.Contains(s.sessions, a.SessionID) {
		s.sessions = append(s.sessions, a.SessionID)
	}
	if a.Code == nil {
		t.Fatalf("the program did not end by itself: %s", r.body)
	}
	return a
}

// download fetches the file of a reply that has a name.
func (s *server) download(t *testing.T, a answer, name string) string {
	t.Helper()
	for _, f := range a.Files {
		if f.Name == name {
			r := s.must(t, http.MethodGet, "/download/"+a.SessionID+"/"+f.ID, s.key, "")
			if r.status != http.StatusOK {
				t.Fatalf("download %s: %d %s", name, r.status, r.body)
			}
			return r.body
		}
	}
	t.Errorf("no %s in %+v", name, a.Files)
	return ""
}

// TestDockerLanguages takes every published language through everything: the wire,
// the table of languages, the backend, a container of the full image, and back.
func TestDockerLanguages(t *testing.T) {
	s := fullImage(t)
	args := []string{"a b", `it's "q"`, "--version", "-e", "$(id)", `\`, "é"}
	want := "hello\n" + strings.Join(args, "\n") + "\n"
	for _, l := range containerPrograms {
		if os.Getenv("CAISSON_TEST_LANGUAGES") == "everyday" && !slices.Contains(everyday, l.lang) {
			continue
		}
		t.Run(l.lang, func(t *testing.T) {
			a := s.execute(t, "", l.lang, l.program, args...)
			if *a.Code != 0 || a.Stdout != want || a.Stderr != "" {
				t.Errorf("code %d, stdout %q, stderr %q; want %q", *a.Code, a.Stdout, a.Stderr, want)
			}
			if got := s.download(t, a, "out.txt"); got != "written" {
				t.Errorf("out.txt holds %q", got)
			}
			if len(a.Files) != 1 {
				t.Errorf("more than what the program wrote came back: %+v", a.Files)
			}
			a = s.execute(t, a.SessionID, l.lang, l.broken)
			if *a.Code == 0 || a.Stdout != "" && l.lang != "php" || a.Stdout+a.Stderr == "" || len(a.Files) != 0 {
				t.Errorf("a program that does not compile: code %d, stdout %q, stderr %q, files %+v", *a.Code, a.Stdout, a.Stderr, a.Files)
			}
			if strings.Contains(a.Stderr, "Permission denied") {
				t.Errorf("the compiler was refused something: %s", a.Stderr)
			}
		})
	}
	s.stop(t)
}

// TestDockerLibraries uses what the full image has beyond languages.
func TestDockerLibraries(t *testing.T) {
	s := fullImage(t)
	for _, tt := range []struct {
		name, lang, code, stdout string
		files                    []string
	}{
		{"tables", "py", `import numpy, pandas, scipy.stats, openpyxl
d = pandas.DataFrame({"a": numpy.arange(4)})
d.to_excel("t.xlsx")
print(int(pandas.read_excel("t.xlsx")["a"].sum()), scipy.stats.norm.cdf(0))`, "6 0.5\n", []string{"t.xlsx"}},
		{"pictures", "py", `from PIL import Image
Image.new("RGB", (8, 8), "red").save("p.png")
print(Image.open("p.png").getpixel((0, 0)))`, "(255, 0, 0)\n", []string{"p.png"}},
		{"show saves", "py", `import matplotlib.pyplot as plt
plt.plot([1, 2])
plt.show()
plt.figure()
plt.figure()
plt.show()
print(plt.get_fignums())`, "[]\n", []string{"figure-1.png", "figure-2.png", "figure-3.png"}},
		{"R pictures", "r", `library(Cairo)
CairoPNG("c.png")
plot(1:3)
invisible(dev.off())
png("p.png")
plot(1:3)
invisible(dev.off())
cat("drawn\n")`, "drawn\n", []string{"c.png", "p.png"}},
		{"R's own device", "r", "plot(1:3)\n", "", []string{"Rplot001.png"}},
		{"localhost", "py", `import socket
print(socket.gethostbyname("localhost"))`, "127.0.0.1\n", nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			a := s.execute(t, "", tt.lang, tt.code)
			if *a.Code != 0 || a.Stdout != tt.stdout || a.Stderr != "" {
				t.Errorf("code %d, stdout %q, stderr %q; want %q", *a.Code, a.Stdout, a.Stderr, tt.stdout)
			}
			for _, name := range tt.files {
				got := s.download(t, a, name)
				if strings.HasSuffix(name, ".png") && !strings.HasPrefix(got, "\x89PNG\r\n") {
					t.Errorf("%s begins with %q", name, got[:min(len(got), 8)])
				}
			}
			if len(a.Files) != len(tt.files) {
				t.Errorf("files %+v, want %q", a.Files, tt.files)
			}
		})
	}
	s.stop(t)
}
