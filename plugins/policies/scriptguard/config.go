package main

import (
	"slices"
	"strconv"
	"strings"

	"github.com/caisson-run/caisson/sdk/canon"
	"github.com/caisson-run/caisson/sdk/policy"
)

// config is what an operator may set; plugin.yaml has its schema.
type config struct {
	ignore, warn []string
	maxBytes     int
}

const (
	maxTypes      = 64
	leastMaxBytes = 1 << 10
	mostMaxBytes  = 128 << 10
)

// parseConfig checks what the schema says again, and that types are known.
func parseConfig(text []byte) (*config, error) {
	c := &config{maxBytes: 64 << 10}
	r := canon.NewReader(text)
	r.Object(func(name string) {
		switch name {
		case "ignore":
			c.ignore = types(r)
		case "warn":
			c.warn = types(r)
		case "max_bytes":
			n := r.Int()
			if n < leastMaxBytes || n > mostMaxBytes {
				r.Fail("want a number from " + strconv.Itoa(leastMaxBytes) + " to " + strconv.Itoa(mostMaxBytes))
				return
			}
			c.maxBytes = int(n)
		default:
			r.Unknown()
		}
	})
	if err := r.End(); err != nil {
		return nil, err
	}
	return c, nil
}

func types(r *canon.Reader) []string {
	list := r.Strings(maxTypes)
	if len(list) == 0 {
		r.Fail("want at least one type; leave the list out to say nothing")
	}
	for _, name := range list {
		if name != unread && !slices.ContainsFunc(rules, func(k rule) bool { return k.kind == name }) {
			r.Fail("there are no findings of type " + strconv.Quote(name))
		}
	}
	return list
}

// admit denies what is certain.
func (c *config) admit(r policy.Request) policy.Verdict {
	certain := c.findings(r, true)
	if len(certain) == 0 {
		return policy.Verdict{Decision: policy.Allow}
	}
	reason := certain[0].String()
	if n := len(certain) - 1; n > 0 {
		reason += ", and " + strconv.Itoa(n) + " more"
	}
	return policy.Verdict{Decision: policy.Deny, Code: certain[0].Type, Reason: reason}
}

// result remarks on what is only odd.
func (c *config) result(o policy.Outcome) (out policy.Remarks) {
	for _, f := range c.findings(o.Request, false) {
		if len(out.Warnings) < policy.MaxRemarks {
			out.Warnings = append(out.Warnings, policy.Remark{Code: f.Type, Reason: f.String()})
		}
	}
	return out
}

// findings are those of one level, in the order of the text.
func (c *config) findings(r policy.Request, certain bool) []Finding {
	return pick(scan(r.Language, r.Code, r.Args, c.maxBytes), func(f Finding) bool {
		return !slices.Contains(c.ignore, f.Type) && (f.Certain && !slices.Contains(c.warn, f.Type)) == certain
	})
}

// Finding is one thing that was found.
type Finding struct {
	// Type is a stable word, for example "reverse_shell".
	Type string
	// Pattern names what matched.
	Pattern string
	// Line counts from 1; 0 is an argument.
	Line int
	// Context is the text around it, printable and short.
	Context string
	// Message says what it is, without a full stop.
	Message string
	// Certain says that ordinary programs do not do this.
	Certain bool
}

// String is one sentence for the caller.
func (f Finding) String() string {
	where := "argument"
	if f.Line > 0 {
		where = "line " + strconv.Itoa(f.Line)
	}
	return where + ": " + f.Message + " (" + f.Context + ")"
}

// maxContext bounds Finding.Context in characters.
const maxContext = 60

// excerpt is the line around a place, without what cannot be printed.
func excerpt(text string, at int) string {
	start := strings.LastIndexByte(text[:at], '\n') + 1
	start = max(start, at-maxContext/2)
	end := len(text)
	if i := strings.IndexByte(text[at:], '\n'); i >= 0 {
		end = at + i
	}
	end = min(end, start+maxContext*4)
	var out []rune
	for _, r := range strings.ToValidUTF8(text[start:end], "?") {
		if !strconv.IsPrint(r) {
			r = ' '
		}
		if out = append(out, r); len(out) == maxContext {
			break
		}
	}
	return strings.TrimSpace(string(out))
}
