package main

import "github.com/caisson-run/caisson/sdk/language"

// languages are the rows people see, in the order of the published set
// (reference wire §4.1), then what goes beyond it. Toolchains follow from recipes.
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
// beside the source are told where else to look.
type recipe struct {
	language, toolchain string
	file                string
	build               []string // empty where nothing is built
	run                 []string
	env                 map[string]string
}

// data is where the caller's files are.
const data = "/mnt/data"

var pythonEnv = map[string]string{
	"PYTHONPATH":              data,
	"PYTHONDONTWRITEBYTECODE": "1",
	"PYTHONUNBUFFERED":        "1", // what was printed before a kill is not lost
	"MPLBACKEND":              "Agg",
}

// recipes lists the toolchains of a language best first.
var recipes = []recipe{
	{"py", "cpython", "main.py", nil, []string{"python3", "{dir}/main.py"}, pythonEnv},

	{"js", "node", "main.js", nil, []string{"node", "{dir}/main.js"}, map[string]string{"NODE_PATH": data}},
	{"js", "bun", "main.js", nil, []string{"bun", "run", "{dir}/main.js"}, map[string]string{"NODE_PATH": data}},
	{"js", "quickjs", "main.js", nil, []string{"qjs", "{dir}/main.js"}, nil},

	{"ts", "deno", "main.ts", nil, []string{"deno", "run", "-A", "--no-remote", "{dir}/main.ts"}, map[string]string{"DENO_DIR": "{dir}/.deno", "NO_COLOR": "1"}},
	{"ts", "bun", "main.ts", nil, []string{"bun", "run", "{dir}/main.ts"}, map[string]string{"NODE_PATH": data}},
	{"ts", "node", "main.ts", nil, []string{"node", "--experimental-strip-types", "--no-warnings", "{dir}/main.ts"}, map[string]string{"NODE_PATH": data}},
	{"ts", "quickjs", "main.ts", nil, []string{"qjs", "{dir}/main.ts"}, nil},

	{"c", "gcc", "main.c", []string{"gcc", "-O2", "-std=gnu17", "-I" + data, "-o", "{dir}/main", "{dir}/main.c", "-lm", "-lpthread"}, []string{"{dir}/main"}, nil},
	{"c", "clang", "main.c", []string{"clang", "-O2", "-std=gnu17", "-I" + data, "-o", "{dir}/main", "{dir}/main.c", "-lm", "-lpthread"}, []string{"{dir}/main"}, nil},
	{"cpp", "gcc", "main.cpp", []string{"g++", "-O2", "-std=gnu++20", "-I" + data, "-o", "{dir}/main", "{dir}/main.cpp", "-lm", "-lpthread"}, []string{"{dir}/main"}, nil},
	{"cpp", "clang", "main.cpp", []string{"clang++", "-O2", "-std=gnu++20", "-I" + data, "-o", "{dir}/main", "{dir}/main.cpp", "-lm", "-lpthread"}, []string{"{dir}/main"}, nil},

	// The source launcher runs the first class of the file, whatever its name.
	{"java", "openjdk", "Main.java", nil, []string{"java", "--class-path", data, "{dir}/Main.java"}, nil},
	{"php", "php", "main.php", nil, []string{"php", "-d", "include_path=.:" + data, "{dir}/main.php"}, nil},
	{"rs", "rustc", "main.rs", []string{"rustc", "-O", "--edition", "2021", "-o", "{dir}/main", "{dir}/main.rs"}, []string{"{dir}/main"}, nil},
	{"go", "go", "main.go", []string{"go", "build", "-o", "{dir}/main", "{dir}/main.go"}, []string{"{dir}/main"}, map[string]string{
		"GOCACHE": "{dir}/.cache", "GOPATH": "{dir}/.go", "GOFLAGS": "-mod=mod", "GOPROXY": "off", "GO111MODULE": "auto", "GOTOOLCHAIN": "local",
	}},
	{"d", "ldc2", "main.d", []string{"ldc2", "-O", "-I=" + data, "-of={dir}/main", "-od={dir}", "{dir}/main.d"}, []string{"{dir}/main"}, nil},
	{"d", "dmd", "main.d", []string{"dmd", "-O", "-I=" + data, "-of={dir}/main", "-od={dir}", "{dir}/main.d"}, []string{"{dir}/main"}, nil},
	{"f90", "gfortran", "main.f90", []string{"gfortran", "-O2", "-J{dir}", "-I" + data, "-o", "{dir}/main", "{dir}/main.f90"}, []string{"{dir}/main"}, nil},
	{"r", "rscript", "main.R", nil, []string{"Rscript", "--vanilla", "{dir}/main.R"}, map[string]string{"R_DEFAULT_DEVICE": "png"}},
	{"bash", "bash", "main.sh", nil, []string{"bash", "{dir}/main.sh"}, nil},
	{"rb", "ruby", "main.rb", nil, []string{"ruby", "-I", data, "{dir}/main.rb"}, nil},
	{"sql", "sqlite", "main.sql", nil, []string{"sqlite3", "-bail", "-init", "{dir}/main.sql", ":memory:", ".exit"}, nil},
}

// table joins the rows with the toolchains that recipes knows for them.
func table() language.Table {
	t := language.Table{Languages: languages}
	for i := range t.Languages {
		l := &t.Languages[i]
		l.Toolchains = nil
		for _, r := range recipes {
			if r.language == l.ID {
				l.Toolchains = append(l.Toolchains, r.toolchain)
			}
		}
	}
	return t
}
