package typescript

import (
	"encoding/json"
	"fmt"
	"path"
	"strings"
	"unicode/utf8"

	"github.com/evanw/esbuild/pkg/api"
)

// Result of a transform.
type Result struct {
	// Code is JavaScript, and Mappings are those of the source map that
	// leads from it to the source.
	Code     string `json:"code"`
	Mappings string `json:"mappings"`
	// Problem is what the compiler says of a source that is no TypeScript:
	// place, text, and the line with a mark below it. Code is empty then.
	Problem string `json:"problem"`
}

// transform runs the compiler. file decides by its extension whether JSX is
// allowed.
func transform(file, source string) Result {
	loader := api.LoaderTS
	switch path.Ext(file) {
	case ".tsx":
		loader = api.LoaderTSX
	case ".jsx":
		loader = api.LoaderJSX
	}
	res := api.Transform(source, api.TransformOptions{
		Loader:      loader,
		Sourcefile:  file,
		Target:      api.ESNext,
		Sourcemap:   api.SourceMapExternal,
		LogLevel:    api.LogLevelSilent,
		TsconfigRaw: `{"compilerOptions":{"experimentalDecorators":true}}`,

		SourcesContent: api.SourcesContentExclude,
	})
	if len(res.Errors) > 0 {
		return Result{Problem: describe(file, res.Errors)}
	}
	var m struct {
		Mappings string `json:"mappings"`
	}
	_ = json.Unmarshal(res.Map, &m) // it is esbuild's own
	return Result{Code: string(res.Code), Mappings: m.Mappings}
}

// describe formats messages the way compilers do.
func describe(file string, errs []api.Message) string {
	var b strings.Builder
	for _, e := range errs {
		l := e.Location
		if l == nil {
			fmt.Fprintf(&b, "%s - error: %s\n", file, e.Text)
			continue
		}
		column := utf8.RuneCountInString(l.LineText[:min(l.Column, len(l.LineText))]) + 1
		fmt.Fprintf(&b, "%s:%d:%d - error: %s\n", file, l.Line, column, e.Text)
		if len(l.LineText) <= maxExcerpt {
			fmt.Fprintf(&b, "\n%s\n%s^\n", l.LineText, indent(l.LineText, l.Column))
		}
	}
	return b.String()
}

// maxExcerpt is the longest line, in bytes, that a problem quotes.
const maxExcerpt = 300

// indent is as wide as the first n bytes of a line.
func indent(line string, n int) string {
	return strings.Map(func(r rune) rune {
		if r == '\t' {
			return r
		}
		return ' '
	}, line[:min(n, len(line))])
}
