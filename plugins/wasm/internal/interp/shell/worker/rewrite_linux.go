package worker

import (
	"cmp"
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// helperDir is where the commands are that rewritten scripts call.
const helperDir = "/usr/lib/caisson/"

// maxRewrites bounds how often a source is looked through again for what was
// inside of something that was rewritten.
const maxRewrites = 8

// rewrite replaces what the interpreter does wrong, or gives up on, by something
// that means the same. Lines keep their numbers. What does not parse is returned
// as it is.
//
// It changes: assignments to elements of arrays in (( )); ${x/#a/b} and
// ${x/%a/b}; ${#m[@]} of associative arrays; variables declared as integers;
// [[ -v a[i] ]]; "let" with quotes; "time", whose report goes to standard error; >|; and
// braces that expand to more words than the interpreter makes.
func rewrite(source string) string {
	for range maxRewrites {
		file, err := syntax.NewParser(syntax.Variant(syntax.LangBash)).Parse(strings.NewReader(source), "")
		if err != nil {
			return source
		}
		r := &rewriter{src: source, assoc: map[string]bool{}, integer: map[string]bool{}}
		syntax.Walk(file, r.declared)
		syntax.Walk(file, r.visit)
		if len(r.edits) == 0 {
			return source
		}
		source = r.apply()
	}
	return source
}

// edit replaces part of a source.
type edit struct {
	from, to uint
	text     string
}

type rewriter struct {
	src   string
	edits []edit
	// names that are declared, anywhere in the source, as such
	assoc, integer map[string]bool
}

func (r *rewriter) apply() string {
	slices.SortStableFunc(r.edits, func(a, b edit) int { return cmp.Compare(a.from, b.from) })
	var b strings.Builder
	at := uint(0)
	for _, e := range r.edits {
		if e.from < at { // inside of another: the next round
			continue
		}
		b.WriteString(r.src[at:e.from])
		b.WriteString(e.text)
		at = e.to
	}
	b.WriteString(r.src[at:])
	return b.String()
}

// text is the source of a node.
func (r *rewriter) text(n syntax.Node) string {
	from, to := n.Pos().Offset(), n.End().Offset()
	if from > to || to > uint(len(r.src)) {
		return ""
	}
	return r.src[from:to]
}

// replace plans an edit of a whole node, unless it would change line numbers.
func (r *rewriter) replace(n syntax.Node, text string) bool {
	if strings.Count(text, "\n") != strings.Count(r.text(n), "\n") {
		return true
	}
	r.edits = append(r.edits, edit{n.Pos().Offset(), n.End().Offset(), text})
	return false
}

// flags are the options of a declaration.
func flags(d *syntax.DeclClause) string {
	all := ""
	for _, a := range d.Args {
		if a.Naked && a.Name == nil && a.Value != nil {
			if lit := a.Value.Lit(); strings.HasPrefix(lit, "-") {
				all += lit[1:]
			}
		}
	}
	return all
}

// declared collects names with attributes.
func (r *rewriter) declared(n syntax.Node) bool {
	d, ok := n.(*syntax.DeclClause)
	if !ok {
		return true
	}
	f := flags(d)
	for _, a := range d.Args {
		if a.Name == nil {
			continue
		}
		if strings.Contains(f, "A") {
			r.assoc[a.Name.Value] = true
		}
		if strings.Contains(f, "i") {
			r.integer[a.Name.Value] = true
		}
	}
	return true
}

// visit plans the edits; false leaves out what is inside of an edit.
func (r *rewriter) visit(n syntax.Node) bool {
	switch n := n.(type) {
	case *syntax.Redirect:
		if n.Op == syntax.RdrClob {
			at := n.OpPos.Offset()
			r.edits = append(r.edits, edit{at, at + 2, "> "})
		}
	case *syntax.CallExpr:
		r.braces(n.Args)
	case *syntax.WordIter:
		r.braces(n.Items)
	case *syntax.ArrayElem:
		if n.Value != nil {
			r.braces([]*syntax.Word{n.Value})
		}
	case *syntax.ArithmCmd:
		return r.arithmetic(n)
	case *syntax.ParamExp:
		return r.expansion(n)
	case *syntax.DeclClause:
		r.declaration(n)
	case *syntax.Assign:
		return r.assignment(n)
	case *syntax.LetClause:
		for _, x := range n.Exprs {
			r.letArgument(x)
		}
	case *syntax.ForClause:
		r.forLoop(n)
	case *syntax.TimeClause:
		return r.time(n)
	case *syntax.UnaryTest:
		// Whether an element is set.
		if w, ok := n.X.(*syntax.Word); ok && n.Op == syntax.TsVarSet {
			if name, index, ok := strings.Cut(strings.TrimSuffix(r.text(w), "]"), "["); ok && syntax.ValidName(name) && !strings.ContainsAny(index, "\"\n") {
				return r.replace(n, "-n \"${"+name+"["+index+"]+x}\"")
			}
		}
	}
	return true
}

// element returns the array and the index of an operand such as a[i].
func (r *rewriter) element(x syntax.ArithmExpr) (name, index string, ok bool) {
	w, ok := x.(*syntax.Word)
	if !ok || len(w.Parts) != 1 {
		return "", "", false
	}
	p, ok := w.Parts[0].(*syntax.ParamExp)
	if !ok || p.Index == nil || p.Param == nil || p.Dollar.IsValid() {
		return "", "", false
	}
	return p.Param.Value, r.text(p.Index), true
}

// arithmetic rewrites ((a[i] op= x)), ((a[i]++)) and their kin.
func (r *rewriter) arithmetic(n *syntax.ArithmCmd) bool {
	var name, index, value, test string
	ok := false
	switch x := n.X.(type) {
	case *syntax.BinaryArithm:
		op := x.Op.String()
		if name, index, ok = r.element(x.X); !ok || !strings.HasSuffix(op, "=") || len(op) == 2 && strings.Contains("<>=!", op[:1]) {
			return true
		}
		if value = r.text(x.Y); op != "=" {
			value = "${" + name + "[" + index + "]:-0} " + op[:len(op)-1] + " (" + value + ")"
		}
		test = "${" + name + "[" + index + "]} != 0"
	case *syntax.UnaryArithm:
		if x.Op != syntax.Inc && x.Op != syntax.Dec {
			return true
		}
		if name, index, ok = r.element(x.X); !ok {
			return true
		}
		op := x.Op.String()[:1]
		value = "${" + name + "[" + index + "]:-0} " + op + " 1"
		test = "${" + name + "[" + index + "]} != 0"
		if x.Post {
			test = "${" + name + "[" + index + "]} != " + map[string]string{"+": "1", "-": "-1"}[op]
		}
	default:
		return true
	}
	return r.replace(n, "{ "+name+"["+index+"]=$(("+value+")); (("+test+")); }")
}

// expansion rewrites anchored replacements and counts of associative arrays.
func (r *rewriter) expansion(p *syntax.ParamExp) bool {
	if p.Param == nil || p.Short {
		return true
	}
	if p.Length && r.assoc[p.Param.Value] {
		if i, ok := p.Index.(*syntax.Word); ok && (i.Lit() == "@" || i.Lit() == "*") {
			return r.replace(p, "$(set -- \"${!"+p.Param.Value+"[@]}\"; echo $#)")
		}
	}
	if p.Repl == nil || p.Repl.All || p.Repl.Orig == nil {
		return true
	}
	pattern := r.text(p.Repl.Orig)
	if len(pattern) < 2 || pattern[0] != '#' && pattern[0] != '%' || strings.ContainsAny(pattern, " \t\n()|;&<>") {
		return true
	}
	subject := p.Param.Value
	if p.Index != nil {
		index := r.text(p.Index)
		if index == "@" || index == "*" {
			return true
		}
		subject += "[" + index + "]"
	} else if subject == "@" || subject == "*" {
		return true
	}
	with := ""
	if p.Repl.With != nil {
		with = r.text(p.Repl.With)
	}
	anchor, pattern := pattern[0], pattern[1:]
	if anchor == '#' {
		// The first match of what begins with one is at the beginning.
		return r.replace(p, "$(case \"${"+subject+"}\" in "+pattern+"*) printf %s \"${"+subject+"/"+pattern+"/"+with+"}\";; *) printf %s \"${"+subject+"}\";; esac)")
	}
	return r.replace(p, "$(case \"${"+subject+"}\" in *"+pattern+") _caisson=x; printf %s%s \"${"+subject+"%%"+pattern+"}\" \"${_caisson/x/"+with+"}\";; *) printf %s \"${"+subject+"}\";; esac)")
}

// declaration drops the option -i; the values become arithmetic, see assignment.
func (r *rewriter) declaration(d *syntax.DeclClause) {
	for _, a := range d.Args {
		if !a.Naked || a.Name != nil || a.Value == nil {
			continue
		}
		lit := a.Value.Lit()
		if !strings.HasPrefix(lit, "-") || !strings.Contains(lit, "i") {
			continue
		}
		text := strings.ReplaceAll(lit, "i", "")
		if text == "-" {
			text = ""
		}
		r.replace(a.Value, text)
	}
}

// assignment makes the value of an integer what it says.
func (r *rewriter) assignment(a *syntax.Assign) bool {
	if a.Name == nil || !r.integer[a.Name.Value] || a.Value == nil || a.Index != nil || a.Naked {
		return true
	}
	value := r.text(a.Value)
	if strings.HasPrefix(value, "$((") && !a.Append {
		return true
	}
	value = strings.Trim(value, `"'`)
	if strings.ContainsAny(value, "\n`\"'") {
		return true
	}
	if a.Append {
		value = a.Name.Value + " + (" + value + ")"
	}
	return r.replace(a, a.Name.Value+"=$(("+value+"))")
}

// letArgument takes quotes off, which the interpreter does not expect.
func (r *rewriter) letArgument(x syntax.ArithmExpr) {
	w, ok := x.(*syntax.Word)
	if !ok || len(w.Parts) != 1 {
		return
	}
	var text string
	switch q := w.Parts[0].(type) {
	case *syntax.SglQuoted:
		text = q.Value
	case *syntax.DblQuoted:
		text = strings.Trim(r.text(q), `"`)
	default:
		return
	}
	if !strings.ContainsAny(text, " \t\n\"'`;") {
		r.replace(w, text)
	}
}

// forLoop makes the commands of a loop succeed.
func (r *rewriter) forLoop(n *syntax.ForClause) {
	const success = ": ; "
	at := n.DonePos.Offset()
	if _, ok := n.Loop.(*syntax.CStyleLoop); !ok || at > uint(len(r.src)) || strings.HasSuffix(r.src[:at], success) || !strings.HasPrefix(r.src[at:], "done") {
		return
	}
	r.edits = append(r.edits, edit{at, at, success})
}

// time puts the command between two others, which take the time and report it.
func (r *rewriter) time(n *syntax.TimeClause) bool {
	if n.Stmt == nil || n.Stmt.Background || n.Stmt.Cmd == nil {
		return true
	}
	for _, rd := range n.Stmt.Redirs {
		if rd.Hdoc != nil {
			return true
		}
	}
	posix := ""
	if n.PosixFormat {
		posix = " -p"
	}
	from, to := n.Stmt.Pos().Offset(), n.Stmt.End().Offset()
	end := "; " + helperDir + "time-end" + posix + "; }"
	if to > 0 && to <= uint(len(r.src)) && (r.src[to-1] == ';' || r.src[to-1] == '\n') {
		end = end[1:]
	}
	r.edits = append(r.edits,
		edit{n.Pos().Offset(), from, "{ " + helperDir + "time-begin; "},
		edit{to, to, end})
	return true
}
