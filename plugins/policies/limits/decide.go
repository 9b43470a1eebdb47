package main

import (
	"slices"
	"strconv"
	"strings"

	"github.com/caisson-run/caisson/sdk/policy"
)

// decide refuses with the first rule that a request breaks, in the order in which
// a caller would mend them.
func (c *config) decide(r policy.Request) policy.Verdict {
	switch {
	case slices.Contains(c.denyOrgs, r.Org), c.orgs != nil && !slices.Contains(c.orgs, r.Org):
		// Which organisations may is none of the caller's business.
		return deny("org_not_allowed", "this organisation may not run programs here")
	case c.languages != nil && !slices.Contains(c.languages, r.Language):
		return deny("language_not_allowed", "language "+quote(r.Language)+" is not allowed here; allowed is "+list(c.languages))
	case c.noNetwork && r.Network != "none":
		return deny("network_not_allowed", "programs may not use the network here")
	case over(r.CodeBytes, c.maxCodeBytes):
		return deny("code_too_large", "the program has "+count(r.CodeBytes, "byte")+", and at most "+number10(c.maxCodeBytes)+" are allowed here")
	case over(int64(len(r.Args)), c.maxArgs):
		return deny("too_many_args", "the program has "+count(int64(len(r.Args)), "argument")+", and at most "+number10(c.maxArgs)+" are allowed here")
	case over(int64(len(r.Files)), c.maxFiles):
		return deny("too_many_files", "the run has "+count(int64(len(r.Files)), "input file")+", and at most "+number10(c.maxFiles)+" are allowed here")
	}
	if c.maxFileBytes >= 0 {
		for _, f := range r.Files {
			if f.Size < 0 {
				return deny("file_size_unknown", "the size of input file "+quote(f.Name)+" is not known, and sizes are limited here")
			}
			if f.Size > c.maxFileBytes {
				return deny("file_too_large", "input file "+quote(f.Name)+" has "+count(f.Size, "byte")+", and at most "+number10(c.maxFileBytes)+" are allowed here")
			}
		}
	}
	return policy.Verdict{Decision: policy.Allow, Limits: c.limits}
}

func deny(code, reason string) policy.Verdict {
	return policy.Verdict{Decision: policy.Deny, Code: code, Reason: reason}
}

// over compares with a cap that says nothing when it is negative.
func over(n, most int64) bool { return most >= 0 && n > most }

func number10(n int64) string { return strconv.FormatInt(n, 10) }

func count(n int64, what string) string {
	if n != 1 {
		what += "s"
	}
	return number10(n) + " " + what
}

// quote makes a caller's text harmless in a sentence, and keeps it short.
func quote(s string) string {
	if len(s) > 100 {
		s = strings.ToValidUTF8(s[:100], "") + "…"
	}
	return strconv.Quote(s)
}

// list names at most a dozen words, as a sentence would.
func list(words []string) string {
	if len(words) > 12 {
		return strings.Join(words[:12], ", ") + " and more"
	}
	if len(words) == 1 {
		return words[0]
	}
	last := len(words) - 1
	return strings.Join(words[:last], ", ") + " and " + words[last]
}
