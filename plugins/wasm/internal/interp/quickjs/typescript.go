package quickjs

import (
	"encoding/json"
	"fmt"
	"path"
	"strings"

	"github.com/evanw/esbuild/pkg/api"
)

// TypeScript is the value of Argv[0] that makes an entry file TypeScript
// whatever its name.
const TypeScript = "ts"

// stripped is the result of opStrip.
type stripped struct {
	Code string `json:"code"`
	Map  string `json:"map"` // source map, JSON
}

// opStrip(source, file, typescript) removes types and JSX from a file and
// returns a stripped as JSON, or throws the compiler's message.
func opStrip(v *vm, a args) uint64 {
	file := a.text(1)
	loader := api.LoaderTS
	switch path.Ext(file) {
	case ".tsx":
		loader = api.LoaderTSX
	case ".jsx":
		loader = api.LoaderJSX
	}
	res := api.Transform(a.text(0), api.TransformOptions{
		Loader:      loader,
		Sourcefile:  file,
		Target:      api.ESNext,
		Sourcemap:   api.SourceMapExternal,
		LogLevel:    api.LogLevelSilent,
		TsconfigRaw: `{"compilerOptions":{"verbatimModuleSyntax":false,"experimentalDecorators":true}}`,
	})
	if len(res.Errors) > 0 {
		return v.throw(compileErrors(file, res.Errors))
	}
	return v.newJSON(stripped{string(res.Code), string(res.Map)})
}

// compileErrors formats messages like a compiler: place, text, and the line
// with a mark under it.
func compileErrors(file string, errs []api.Message) string {
	var b strings.Builder
	for _, e := range errs {
		if e.Location == nil {
			fmt.Fprintf(&b, "%s: error: %s\n", file, e.Text)
			continue
		}
		l := e.Location
		fmt.Fprintf(&b, "%s:%d:%d - error: %s\n\n%s\n%s^\n", file, l.Line, l.Column+1, e.Text, l.LineText, strings.Repeat(" ", l.Column))
	}
	return b.String()
}

// sourceMap is what we need of a source map.
type sourceMap struct {
	Mappings string `json:"mappings"`
}

// opPosition(map, line, column) returns [line, column] of the source as JSON,
// all counted from 1, or the given ones when the map does not say.
func opPosition(v *vm, a args) uint64 {
	line, col := int(a.number(1)), int(a.number(2))
	var m sourceMap
	if json.Unmarshal([]byte(a.text(0)), &m) == nil {
		line, col = m.original(line, col)
	}
	return v.newJSON([2]int{line, col})
}

// original finds the last mapping at or before a generated position.
func (m sourceMap) original(line, col int) (int, int) {
	outLine, outCol := line, col
	var srcLine, srcCol int
	for n, group := range strings.Split(m.Mappings, ";") {
		if n >= line {
			break
		}
		genCol := 0
		for _, seg := range strings.Split(group, ",") {
			d := decodeVLQ(seg)
			if len(d) < 4 {
				continue
			}
			genCol += d[0]
			srcLine += d[2]
			srcCol += d[3]
			if n == line-1 && (genCol < col || outLine == line && outCol == col) {
				outLine, outCol = srcLine+1, srcCol+1
			}
		}
	}
	return outLine, outCol
}

const vlqDigits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"

// decodeVLQ decodes one segment of a source map's mappings.
func decodeVLQ(s string) (out []int) {
	value, shift := 0, 0
	for i := range len(s) {
		d := strings.IndexByte(vlqDigits, s[i])
		if d < 0 || shift > 30 {
			return nil
		}
		value |= d & 31 << shift
		if shift += 5; d&32 != 0 {
			continue
		}
		if value&1 != 0 {
			out = append(out, -(value >> 1))
		} else {
			out = append(out, value>>1)
		}
		value, shift = 0, 0
	}
	return out
}
