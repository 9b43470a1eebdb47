// Command clients writes example programs that call a server, in several languages, and
// the document that shows them, from the OpenAPI document:
//
//	clients OPENAPI OUT
//
// writes OUT/docs/clients.md and OUT/docs/examples/clients/.
package main

import (
	"bytes"
	"embed"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"text/template"
)

//go:embed templates
var templates embed.FS

// program is one example.
type program struct {
	// Title and Name of the language, as people and as Markdown call it.
	Title, Name string
	// File is where the example is; Needs is what it takes beside the language.
	File, Needs string
	// Run is how it is run.
	Run string
	// Text is the example.
	Text string
}

var programs = []program{
	{Title: "TypeScript", Name: "typescript", File: "client.ts", Needs: "Nothing but Node 22 or later.", Run: "node --experimental-strip-types client.ts"},
	{Title: "Python", Name: "python", File: "client.py", Needs: "Nothing but Python 3.11 or later.", Run: "python3 client.py"},
	{Title: "Rust", Name: "rust", File: "client.rs", Needs: "The crates `reqwest` (features `blocking`, `json`, `multipart`), `serde` (`derive`) and `serde_json`.", Run: "cargo run"},
	{Title: "Java", Name: "java", File: "Client.java", Needs: "Java 21 or later and Jackson (`jackson-databind`).", Run: "java -cp 'lib/*' Client.java"},
}

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: clients OPENAPI OUT")
		os.Exit(2)
	}
	if err := run(os.Args[1], os.Args[2]); err != nil {
		fmt.Fprintln(os.Stderr, "clients:", err)
		os.Exit(1)
	}
}

func run(source, out string) error {
	a, err := load(source)
	if err != nil {
		return err
	}
	dir := filepath.Join(out, "docs", "examples", "clients")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	list := make([]program, len(programs))
	for i, p := range programs {
		text, err := render(p.File, a)
		if err != nil {
			return err
		}
		p.Text = text
		list[i] = p
		if err := os.WriteFile(filepath.Join(dir, p.File), []byte(text), 0o644); err != nil {
			return err
		}
	}
	text, err := render("clients.md", map[string]any{"API": a, "Programs": list})
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(out, "docs", "clients.md"), []byte(text), 0o644)
}

// render executes the template of a file.
func render(name string, data any) (string, error) {
	t, err := template.New(name+".tmpl").Funcs(template.FuncMap{
		"ts": typescript, "py": python, "rs": rust, "java": java, "javaNew": javaNew,
		"ident": ident, "camel": camel, "path": pathOf, "plain": plain, "dict": dict, "rspath": rustPath, "javapath": javaPath,
	}).ParseFS(templates, "templates/"+name+".tmpl")
	if err != nil {
		return "", err
	}
	var b bytes.Buffer
	if err := t.Execute(&b, data); err != nil {
		return "", err
	}
	return strings.TrimRight(b.String(), "\n") + "\n", nil
}
