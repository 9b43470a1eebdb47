package main

import (
	"strings"

	"github.com/caisson-run/caisson/sdk/language"
)

// languages are the rows people see, in the order of the published set
// (docs/wire.md), then what goes beyond it. Toolchains follow from recipes.
var languages = []language.Language{
	{ID: "py", Name: "Python", Aliases: []string{"python", "python3"}, Advertised: true},
	{ID: "js", Name: "JavaScript", Aliases: []string{"javascript", "node"}, Advertised: true},
	{ID: "ts", Name: "TypeScript", Aliases: []string{"typescript"}, Advertised: true},
	{ID: "c", Name: "C", Advertised: true},
	{ID: "cpp", Name: "C++", Aliases: []string{"c++", "cxx"}, Advertised: true},
	{ID: "java", Name: "Java", Advertised: true},
	{ID: "php", Name: "PHP", Advertised: true},
	{ID: "rs", Name: "Rust", Aliases: []string{"rust"}, Advertised: true},
	{ID: "go", Name: "Go", Aliases: []string{"golang"}, Advertised: true},
	{ID: "d", Name: "D", Aliases: []string{"dlang"}, Advertised: true},
	{ID: "f90", Name: "Fortran", Aliases: []string{"fortran"}, Advertised: true},
	{ID: "r", Name: "R", Aliases: []string{"rscript"}, Advertised: true},
	{ID: "bash", Name: "Bash", Aliases: []string{"sh", "shell"}, Advertised: true},
	{ID: "rb", Name: "Ruby", Aliases: []string{"ruby"}},
	{ID: "sql", Name: "SQL (SQLite)", Aliases: []string{"sqlite"}},
}

// recipe is how one toolchain runs one language. Programs start in the data
// directory with their source elsewhere, so languages that look for modules
// beside the source are told where else to look. The lists are argument vectors;
// nothing goes through a shell. Whatever reads options from its own arguments
// stops at the program's file, so that what follows is the program's.
type recipe struct {
	language, toolchain string
	file                string
	build               []string // empty where nothing is built
	run                 []string
	env                 map[string]string
	takesNoArgs         bool
}

// data is where the caller's files are.
const data = "/mnt/data"

var (
	// -I and its kin would hide the data directory; PYTHONPATH shows it, after the
	// directory of the source.
	pythonEnv = map[string]string{
		"PYTHONPATH":              data,
		"PYTHONDONTWRITEBYTECODE": "1",
		"PYTHONUNBUFFERED":        "1", // what was printed before a kill is not lost
		"PYTHONUTF8":              "1",
	}
	nodeEnv = map[string]string{"NODE_PATH": data + ":" + data + "/node_modules"}
	// What is imported is bundled, so that it may lie in the data directory. Modules
	// have top-level await but no require, which programs use all the same; the
	// names that get around that are nobody's.
	bundle = append(argv("esbuild --bundle --platform=node --format=esm --target=node18 --sourcemap=inline --log-level=warning --outfile={dir}/main.mjs {dir}/main.ts"),
		`--banner:js=import { createRequire as caissonRequire } from "node:module"; globalThis.require ??= caissonRequire("`+data+`/main.js");`)
	// Everything the go command writes goes where the run's files go away, and it
	// looks for nothing outside: no modules, no toolchains, no repository.
	goEnv = map[string]string{
		"GOCACHE": "{dir}/.cache", "GOPATH": "{dir}/.go", "XDG_CONFIG_HOME": "{dir}/.config", "GOENV": "off", "GOWORK": "off",
		"GOFLAGS": "-buildvcs=false", "GOPROXY": "off", "GOTOOLCHAIN": "local", "GO111MODULE": "auto",
	}
)

// recipes lists the toolchains of a language best first.
var recipes = []recipe{
	{language: "py", toolchain: "cpython", file: "main.py", run: argv("python3 {dir}/main.py"), env: pythonEnv},

	{language: "js", toolchain: "node", file: "main.js", run: argv("node {dir}/main.js"), env: nodeEnv},
	{language: "js", toolchain: "bun", file: "main.js", run: argv("bun run {dir}/main.js"), env: nodeEnv},
	{language: "js", toolchain: "quickjs", file: "main.js", run: argv("qjs {dir}/main.js")},

	{language: "ts", toolchain: "deno", file: "main.ts", run: argv("deno run --allow-all --no-remote --quiet {dir}/main.ts"), env: map[string]string{"DENO_DIR": "{dir}/.deno", "DENO_NO_UPDATE_CHECK": "1", "NO_COLOR": "1"}},
	{language: "ts", toolchain: "bun", file: "main.ts", run: argv("bun run {dir}/main.ts"), env: nodeEnv},
	{language: "ts", toolchain: "esbuild", file: "main.ts", build: bundle, run: argv("node --enable-source-maps {dir}/main.mjs"), env: nodeEnv},
	{language: "ts", toolchain: "node", file: "main.ts", run: argv("node --experimental-strip-types --no-warnings {dir}/main.ts"), env: nodeEnv},
	{language: "ts", toolchain: "quickjs", file: "main.ts", run: argv("qjs {dir}/main.ts")},

	// Libraries come after what needs them.
	{language: "c", toolchain: "gcc", file: "main.c", build: argv("gcc -O2 -std=gnu17 -I " + data + " -o {dir}/main {dir}/main.c -lm -pthread"), run: argv("{dir}/main")},
	{language: "c", toolchain: "clang", file: "main.c", build: argv("clang -O2 -std=gnu17 -I " + data + " -o {dir}/main {dir}/main.c -lm -pthread"), run: argv("{dir}/main")},
	{language: "cpp", toolchain: "gcc", file: "main.cpp", build: argv("g++ -O2 -std=gnu++20 -I " + data + " -o {dir}/main {dir}/main.cpp -lm -pthread"), run: argv("{dir}/main")},
	{language: "cpp", toolchain: "clang", file: "main.cpp", build: argv("clang++ -O2 -std=gnu++20 -I " + data + " -o {dir}/main {dir}/main.cpp -lm -pthread"), run: argv("{dir}/main")},

	// The source launcher runs the first class of the file, whatever its name.
	{language: "java", toolchain: "openjdk", file: "Main.java", run: argv("java --class-path " + data + " {dir}/Main.java")},
	{language: "php", toolchain: "php", file: "main.php", run: argv("php -d include_path=.:" + data + " {dir}/main.php")},
	{language: "rs", toolchain: "rustc", file: "main.rs", build: argv("rustc -O --edition 2021 -o {dir}/main {dir}/main.rs"), run: argv("{dir}/main")},
	// Not "go run": it takes arguments that end in .go for sources.
	{language: "go", toolchain: "go", file: "main.go", build: argv("go build -o {dir}/main {dir}/main.go"), run: argv("{dir}/main"), env: goEnv},
	{language: "d", toolchain: "ldc2", file: "main.d", build: argv("ldc2 -O -I=" + data + " -of={dir}/main -od={dir} {dir}/main.d"), run: argv("{dir}/main")},
	{language: "d", toolchain: "dmd", file: "main.d", build: argv("dmd -O -I=" + data + " -of={dir}/main -od={dir} {dir}/main.d"), run: argv("{dir}/main")},
	{language: "f90", toolchain: "gfortran", file: "main.f90", build: argv("gfortran -O2 -J {dir} -I " + data + " -o {dir}/main {dir}/main.f90"), run: argv("{dir}/main")},
	{language: "r", toolchain: "rscript", file: "main.R", run: argv("Rscript --vanilla {dir}/main.R"), env: map[string]string{"R_DEFAULT_DEVICE": "png"}},
	{language: "bash", toolchain: "bash", file: "main.sh", run: argv("bash {dir}/main.sh")},
	{language: "rb", toolchain: "ruby", file: "main.rb", run: argv("ruby -I " + data + " {dir}/main.rb")},
	// sqlite3 would run its arguments as SQL.
	{language: "sql", toolchain: "sqlite", file: "main.sql", run: []string{"sqlite3", "-bail", "-batch", ":memory:", ".read {dir}/main.sql"}, takesNoArgs: true},
}

// argv splits at spaces: no command above has one inside of an argument.
func argv(command string) []string { return strings.Fields(command) }
