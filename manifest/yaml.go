package manifest

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/caisson-run/caisson/internal/yamldepth"
	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/lexer"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"
)

const (
	// maxTokens bounds the work of the YAML parser, parts of which are quadratic
	// in the number of keys and in depth. A manifest with a hundred settings has
	// about two thousand.
	maxTokens = 8192
	maxDepth  = 32
)

// pos is a place in the file, counted from 1, columns in characters.
type pos struct{ line, col int }

type nodeKind uint8

const (
	nullNode nodeKind = iota
	boolNode
	numberNode
	stringNode
	listNode
	mapNode
)

func (k nodeKind) String() string {
	return [...]string{"null", "a boolean", "a number", "a string", "a list", "a mapping"}[k]
}

// node is one YAML value with its place. The parser's own tree ends here, so
// that the rest of the package has six kinds of value to think about.
type node struct {
	kind nodeKind
	pos  pos
	// field is where the value stands in the document, such as env[2].
	field string
	// text is the value of a scalar: a string unescaped, anything else as written.
	text  string
	items []*node
	pairs []pair
	// flow marks the notation of JSON, {} and [].
	flow bool
}

type pair struct {
	key   string
	pos   pos
	value *node
}

func (n *node) get(key string) *node {
	for _, p := range n.pairs {
		if p.key == key {
			return p.value
		}
	}
	return nil
}

// parseTree turns one YAML document into nodes, or reports why it cannot.
func parseTree(r *report, data []byte) *node {
	if p, reason := checkText(data); reason != "" {
		r.fail(p, "", "%s", reason)
		return nil
	}
	r.lines = strings.Split(string(data), "\n")
	return contain(r, func() *node {
		tokens := lexer.Tokenize(string(data))
		if !checkTokens(r, tokens) {
			return nil
		}
		file, err := parser.Parse(tokens, 0, parser.AllowDuplicateMapKey())
		var located yaml.Error
		switch {
		case errors.As(err, &located) && located.GetToken() != nil:
			r.fail(place(located.GetToken()), "", "%s", printable(located.GetMessage()))
		case err != nil:
			r.fail(pos{1, 1}, "", "malformed YAML")
		case len(file.Docs) == 0 || file.Docs[0].Body == nil:
			r.fail(pos{1, 1}, "", "the file is empty")
		case len(file.Docs) > 1:
			r.fail(place(file.Docs[1].GetToken()), "", "a manifest is one document: remove what follows")
		default:
			return convert(r, file.Docs[0].Body, "", 1)
		}
		return nil
	})
}

// contain turns a panic of the YAML library into an error like any other. It has
// had several on malformed input (goccy/go-yaml issues 439, 479, 890), and a
// file must not be able to take the host down.
func contain(r *report, build func() *node) (root *node) {
	defer func() {
		if recover() != nil {
			r.fail(pos{1, 1}, "", "malformed YAML")
			root = nil
		}
	}()
	return build()
}

// checkText refuses what no editor should have produced, before the parser sees
// it: what cannot be seen cannot be reviewed.
func checkText(data []byte) (pos, string) {
	if len(data) > MaxSize {
		return pos{1, 1}, fmt.Sprintf("the file is larger than %d KiB", MaxSize>>10)
	}
	p := pos{1, 1}
	for i := 0; i < len(data); {
		c, size := utf8.DecodeRune(data[i:])
		switch {
		case c == utf8.RuneError && size == 1:
			return p, "not UTF-8 text"
		case c == '\uFEFF':
			return p, "a byte order mark: save the file as UTF-8 without one"
		case c == '\r' && (i+1 == len(data) || data[i+1] != '\n'):
			return p, "a carriage return without a line feed"
		case unicode.IsControl(c) && !strings.ContainsRune("\t\n\r", c):
			return p, fmt.Sprintf("control character %U", c)
		case unicode.Is(unicode.Bidi_Control, c) || c == '\u2028' || c == '\u2029':
			return p, fmt.Sprintf("invisible formatting character %U", c)
		}
		i += size
		if p.col++; c == '\n' {
			p = pos{p.line + 1, 1}
		}
	}
	return pos{}, ""
}

// checkTokens refuses, before anything is built from them, token streams that
// are too long or too deep, and the YAML features that a manifest has no use for.
func checkTokens(r *report, tokens token.Tokens) bool {
	if len(tokens) > maxTokens {
		r.fail(place(tokens[maxTokens]), "", "more than %d tokens", maxTokens)
		return false
	}
	deep := yamldepth.Exceeds(tokens, maxDepth)
	started, block := false, false
	for _, t := range tokens {
		refused := ""
		switch t.Type {
		case token.CommentType:
			continue
		case token.DocumentHeaderType:
			if started {
				refused = "a manifest is one document: remove what follows"
			}
		case token.StringType:
			// The library takes a stray bracket for text.
			if !block && strings.ContainsAny(t.Value[:min(1, len(t.Value))], ",[]{}") {
				refused = "unexpected " + t.Value[:1]
			}
		case token.AnchorType, token.AliasType:
			refused = "anchors and aliases are not allowed: write the value out"
		case token.TagType:
			refused = "tags are not allowed"
		case token.DirectiveType:
			refused = "directives are not allowed"
		case token.MergeKeyType:
			refused = "merge keys are not allowed: write the keys out"
		case token.MappingKeyType:
			refused = "complex keys are not allowed"
		case token.InvalidType:
			refused = printable(t.Error)
		}
		if t == deep {
			refused = fmt.Sprintf("nested more than %d levels deep", maxDepth)
		}
		if refused != "" {
			r.fail(place(t), "", "%s", refused)
			return false
		}
		started, block = true, t.Type == token.LiteralType || t.Type == token.FoldedType
	}
	return true
}

func place(t *token.Token) pos {
	if t == nil || t.Position == nil {
		return pos{1, 1}
	}
	return pos{t.Position.Line, t.Position.Column}
}

// convert copies the library's tree. Duplicate keys are reported and dropped.
func convert(r *report, from ast.Node, field string, depth int) *node {
	n := &node{pos: place(from.GetToken()), field: field}
	if depth > maxDepth {
		r.fail(n.pos, field, "nested more than %d levels deep", maxDepth)
		return nil
	}
	switch from := from.(type) {
	case *ast.NullNode:
		n.kind = nullNode
	case *ast.BoolNode:
		n.kind, n.text = boolNode, strconv.FormatBool(from.Value)
	case *ast.IntegerNode, *ast.FloatNode, *ast.InfinityNode, *ast.NanNode:
		n.kind, n.text = numberNode, from.GetToken().Value
	case *ast.StringNode:
		n.kind, n.text = stringNode, from.Value
		// An unquoted number that overflows comes back as text.
		if from.Token.Type == token.StringType && numberExpr.MatchString(from.Value) {
			n.kind = numberNode
		}
	case *ast.LiteralNode:
		n.kind, n.text, n.pos = stringNode, from.Value.Value, place(from.Start)
	case *ast.SequenceNode:
		n.kind, n.flow = listNode, from.IsFlowStyle
		for i, v := range from.Values {
			item := convert(r, v, fmt.Sprintf("%s[%d]", field, i), depth+1)
			if item == nil {
				return nil
			}
			n.items = append(n.items, item)
		}
	case *ast.MappingNode:
		n.kind, n.flow = mapNode, from.IsFlowStyle
		return convertPairs(r, n, from.Values, depth)
	case *ast.MappingValueNode:
		n.kind, n.flow = mapNode, from.IsFlowStyle
		return convertPairs(r, n, []*ast.MappingValueNode{from}, depth)
	default:
		r.fail(n.pos, field, "unexpected YAML %s", strings.ToLower(from.Type().String()))
		return nil
	}
	return n
}

func convertPairs(r *report, n *node, values []*ast.MappingValueNode, depth int) *node {
	if len(values) > 0 && !n.flow {
		n.pos = place(values[0].Key.GetToken())
	}
	seen := make(map[string]pos, len(values))
	for _, v := range values {
		at := place(v.Key.GetToken())
		key, ok := v.Key.(*ast.StringNode)
		if !ok {
			r.fail(at, n.field, "keys must be strings: put this one in quotes")
			return nil
		}
		field := join(n.field, key.Value)
		if first, dup := seen[key.Value]; dup {
			r.fail(at, field, "already given on line %d", first.line)
			continue
		}
		seen[key.Value] = at
		value := convert(r, v.Value, field, depth+1)
		if value == nil {
			return nil
		}
		n.pairs = append(n.pairs, pair{key.Value, at, value})
	}
	return n
}

func join(field, key string) string {
	if field == "" {
		return key
	}
	return field + "." + key
}
