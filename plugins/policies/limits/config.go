package main

import (
	"slices"
	"strconv"
	"strings"

	"github.com/caisson-run/caisson/sdk/canon"
	"github.com/caisson-run/caisson/sdk/policy"
)

// config is what an operator may set; plugin.yaml has its schema. A nil list and a
// negative number say nothing.
type config struct {
	// languages, if not nil, are the canonical ids of those that may run.
	languages []string
	// orgs, if not nil, are the organisations that may run programs; those in
	// denyOrgs may not in any case.
	orgs, denyOrgs []string
	// noNetwork refuses sandboxes with a network.
	noNetwork bool
	// The largest program text, number of arguments, number of input files and size
	// of one input file.
	maxCodeBytes, maxArgs, maxFiles, maxFileBytes int64
	// limits are caps on the limits of a run.
	limits policy.Limits
}

const (
	maxList = 10_000
	// idBytes are what ids of languages are made of.
	idBytes = "abcdefghijklmnopqrstuvwxyz0123456789_-"
)

// parseConfig reads a configuration and checks what the schema says again: the
// module decides who may run programs, and does not rely on who wrote its input.
func parseConfig(text []byte) (*config, error) {
	c := &config{maxCodeBytes: -1, maxArgs: -1, maxFiles: -1, maxFileBytes: -1}
	r := canon.NewReader(text)
	r.Object(func(name string) {
		switch name {
		case "languages":
			c.languages = words(r)
			for _, id := range c.languages {
				if strings.Trim(id, idBytes) != "" {
					r.Fail("want canonical language ids, for example py")
				}
			}
		case "orgs":
			c.orgs = words(r)
		case "deny_orgs":
			c.denyOrgs = words(r)
		case "network":
			switch r.String() {
			case "none":
				c.noNetwork = true
			case "open":
			default:
				r.Fail(`want "none" or "open"`)
			}
		case "max_code_bytes":
			c.maxCodeBytes = number(r, 0)
		case "max_args":
			c.maxArgs = number(r, 0)
		case "max_files":
			c.maxFiles = number(r, 0)
		case "max_file_bytes":
			c.maxFileBytes = number(r, 0)
		case "limits":
			c.limits = limits(r)
		default:
			r.Unknown()
		}
	})
	if err := r.End(); err != nil {
		return nil, err
	}
	return c, nil
}

// words reads a list that would shut everybody out if it were empty.
func words(r *canon.Reader) []string {
	list := r.Strings(maxList)
	if len(list) == 0 || slices.Contains(list, "") {
		r.Fail("want at least one element, and none empty; leave the list out to say nothing")
	}
	return list
}

func number(r *canon.Reader, least int64) int64 {
	n := r.Int()
	if n < least {
		r.Fail("want a number of at least " + strconv.FormatInt(least, 10))
	}
	return n
}

func limits(r *canon.Reader) (l policy.Limits) {
	r.Object(func(name string) {
		member := map[string]*int64{
			"wall_ms": &l.WallMS, "cpu_ms": &l.CPUMS, "memory_bytes": &l.MemoryBytes, "processes": &l.Processes,
			"stdout_bytes": &l.StdoutBytes, "stderr_bytes": &l.StderrBytes,
			"changed_files": &l.ChangedFiles, "changed_file_bytes": &l.ChangedFileBytes,
		}[name]
		if member == nil {
			r.Unknown()
			return
		}
		*member = number(r, 1)
	})
	return l
}
