// Command languages is the language table that Caisson ships: a WebAssembly
// module that knows how programs in the published languages, and a few more, are
// started by the toolchains that backends offer.
//
// It builds with GOOS=wasip1 GOARCH=wasm -buildmode=c-shared; natively it builds
// for its tests.
package main

import (
	"slices"
	"strings"

	"github.com/caisson-run/caisson/sdk/guest"
	"github.com/caisson-run/caisson/sdk/language"
)

func init() { language.Serve(table(), plan) }

func main() {}

// plan answers for every row of recipes. The caller's arguments go to the program
// and never to what builds it. Hosts send canonical ids; aliases and other
// spellings are understood all the same.
func plan(r language.PlanRequest) (language.Plan, error) {
	id, ok := canonical(r.Language)
	if !ok {
		return language.Plan{}, &guest.Error{Code: language.CodeUnknownLanguage, Message: "no language " + r.Language}
	}
	for _, row := range recipes {
		if row.language == id && row.toolchain == r.Toolchain {
			return row.plan(r.Args)
		}
	}
	return language.Plan{}, &guest.Error{Code: language.CodeUnknownToolchain, Message: id + " has no toolchain " + r.Toolchain}
}

func canonical(spelling string) (id string, ok bool) {
	s := strings.ToLower(strings.TrimSpace(spelling))
	i := slices.IndexFunc(languages, func(l language.Language) bool {
		return l.ID == s || slices.Contains(l.Aliases, s)
	})
	if i < 0 {
		return "", false
	}
	return languages[i].ID, true
}

func (row *recipe) plan(args []string) (language.Plan, error) {
	if row.takesNoArgs && len(args) > 0 {
		return language.Plan{}, &guest.Error{Code: codeNoArguments, Message: row.language + " programs take no arguments"}
	}
	p := language.Plan{File: row.file, Env: row.env}
	if len(row.build) > 0 {
		p.Steps = append(p.Steps, language.Step{Name: "compile", Argv: row.build})
	}
	p.Steps = append(p.Steps, language.Step{Name: "run", Argv: row.run, Args: args})
	return p, nil
}

// codeNoArguments is for arguments to a program that has no way to see them.
const codeNoArguments = "no_arguments"

// table joins the rows with the toolchains that recipes knows for them.
func table() language.Table {
	rows := slices.Clone(languages)
	for i := range rows {
		for _, r := range recipes {
			if r.language == rows[i].ID {
				rows[i].Toolchains = append(rows[i].Toolchains, r.toolchain)
			}
		}
	}
	return language.Table{Languages: rows}
}
