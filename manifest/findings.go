package manifest

import (
	"encoding/json"
	"fmt"
	"math/big"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"
)

// finding is one broken rule at one place of an instance.
type finding struct {
	at   []string
	rule string
	// unknown marks a property that no schema knows.
	unknown bool
}

// findings flattens a validation error into rules in our words. The library's
// own messages repeat values. properties may be nil.
func findings(verr *jsonschema.ValidationError, properties func([]string) []string) []finding {
	var all []finding
	flatten(verr, properties, &all)
	// A schema that fails has not vouched for its properties, so that they look
	// unknown besides: report those only when nothing else is wrong.
	if known := slices.DeleteFunc(slices.Clone(all), func(f finding) bool { return f.unknown }); len(known) > 0 {
		all = known
	}
	slices.SortFunc(all, func(a, b finding) int {
		if c := slices.Compare(a.at, b.at); c != 0 {
			return c
		}
		return strings.Compare(a.rule, b.rule)
	})
	return slices.CompactFunc(all, func(a, b finding) bool { return slices.Equal(a.at, b.at) && a.rule == b.rule })
}

func flatten(e *jsonschema.ValidationError, properties func([]string) []string, out *[]finding) {
	at := slices.Clip(e.InstanceLocation)
	add := func(rule string, more ...string) {
		*out = append(*out, finding{at: append(at, more...), rule: rule})
	}
	switch k := e.ErrorKind.(type) {
	case *kind.Required:
		for _, name := range k.Missing {
			add("required", name)
		}
	case *kind.DependentRequired:
		for _, name := range k.Missing {
			add("required when "+printable(k.Prop)+" is given", name)
		}
	case *kind.AdditionalProperties:
		var known []string
		if properties != nil {
			known = properties(fragment(e.SchemaURL))
		}
		for _, name := range k.Properties {
			add("unknown key"+nearest(name, known), name)
		}
	case *kind.FalseSchema:
		place := fragment(e.SchemaURL)
		if n := len(place) - 1; n >= 0 && place[n] == "unevaluatedProperties" && len(at) > 0 {
			var known []string
			if properties != nil {
				known = properties(place[:n])
			}
			*out = append(*out, finding{at, "unknown key" + nearest(at[len(at)-1], known), true})
			return
		}
		add("not allowed here")
	case *kind.AnyOf:
		add("matches none of the forms that are allowed" + alternatives(e))
	case *kind.OneOf:
		if k.Subschemas == nil {
			add("matches none of the forms that are allowed" + alternatives(e))
		} else {
			add("matches more than one of the forms that are allowed, which exclude each other")
		}
	case *kind.Schema, *kind.Group, *kind.Reference, *kind.AllOf:
		for _, cause := range e.Causes {
			flatten(cause, properties, out)
		}
	default:
		add(ruleText(e.ErrorKind))
	}
}

// alternatives says in a few words what each of several forms lacks.
func alternatives(e *jsonschema.ValidationError) string {
	const most = 4
	var list []string
	for _, cause := range e.Causes {
		var found []finding
		flatten(cause, nil, &found)
		var parts []string
		for _, f := range found {
			part := f.rule
			if inside := f.at[min(len(e.InstanceLocation), len(f.at)):]; len(inside) > 0 {
				part = printable(pointer(inside)) + " " + part
			}
			parts = append(parts, part)
		}
		if s := strings.Join(parts, " and "); s != "" && !slices.Contains(list, s) && len(list) < most {
			list = append(list, s)
		}
	}
	if len(list) == 0 {
		return ""
	}
	return ": " + strings.Join(list, ", or ")
}

// ruleText states a rule without the value that broke it.
func ruleText(k jsonschema.ErrorKind) string {
	switch k := k.(type) {
	case *kind.Type:
		return fmt.Sprintf("must be %s, not %s", strings.Join(k.Want, " or "), k.Got)
	case *kind.Const:
		return "must be " + compact(k.Want)
	case *kind.Enum:
		parts := make([]string, len(k.Want))
		for i, w := range k.Want {
			parts[i] = compact(w)
		}
		return "must be one of " + strings.Join(parts, ", ")
	case *kind.Format:
		return "not a valid " + k.Want
	case *kind.Pattern:
		return "must match " + printable(k.Want)
	case *kind.MinLength:
		return fmt.Sprintf("must have at least %d characters", k.Want)
	case *kind.MaxLength:
		return fmt.Sprintf("must have at most %d characters", k.Want)
	case *kind.MinItems:
		return fmt.Sprintf("must have at least %d items", k.Want)
	case *kind.MaxItems:
		return fmt.Sprintf("must have at most %d items", k.Want)
	case *kind.MinProperties:
		return fmt.Sprintf("must have at least %d keys", k.Want)
	case *kind.MaxProperties:
		return fmt.Sprintf("must have at most %d keys", k.Want)
	case *kind.UniqueItems:
		return fmt.Sprintf("items %d and %d are equal", k.Duplicates[0], k.Duplicates[1])
	case *kind.Minimum:
		return "must be at least " + decimal(k.Want)
	case *kind.Maximum:
		return "must be at most " + decimal(k.Want)
	case *kind.ExclusiveMinimum:
		return "must be more than " + decimal(k.Want)
	case *kind.ExclusiveMaximum:
		return "must be less than " + decimal(k.Want)
	case *kind.MultipleOf:
		return "must be a multiple of " + decimal(k.Want)
	case *kind.Contains:
		return "must contain an item of the form that is asked for"
	case *kind.MinContains:
		return fmt.Sprintf("must contain at least %d items of the form that is asked for", k.Want)
	case *kind.MaxContains:
		return fmt.Sprintf("must contain at most %d items of the form that is asked for", k.Want)
	case *kind.Not:
		return "has the form that is excluded"
	default:
		return "does not satisfy the schema"
	}
}

// compact writes a value of the schema.
func compact(v any) string {
	raw, err := json.Marshal(v)
	if err != nil {
		return "the value in the schema"
	}
	text := string(raw)
	if strings.ContainsFunc(text, func(r rune) bool { return !unicode.IsPrint(r) }) || len(text) > 120 {
		return printable(text)
	}
	return text
}

func decimal(r *big.Rat) string {
	if r.IsInt() && r.Num().BitLen() <= 64 {
		return r.Num().String()
	}
	f, _ := r.Float64()
	return strconv.FormatFloat(f, 'g', -1, 64)
}

// pointer writes a JSON pointer (RFC 6901 §3).
func pointer(tokens []string) string {
	var b strings.Builder
	for _, t := range tokens {
		b.WriteByte('/')
		b.WriteString(strings.NewReplacer("~", "~0", "/", "~1").Replace(t))
	}
	return b.String()
}

// fragment reads the JSON pointer behind the # of a schema's URL.
func fragment(location string) []string {
	_, frag, _ := strings.Cut(location, "#")
	if s, err := url.PathUnescape(frag); err == nil {
		frag = s
	}
	if frag == "" {
		return nil
	}
	tokens := strings.Split(strings.TrimPrefix(frag, "/"), "/")
	for i, t := range tokens {
		tokens[i] = strings.NewReplacer("~1", "/", "~0", "~").Replace(t)
	}
	return tokens
}
