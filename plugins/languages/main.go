// Command languages is the language table that Caisson ships: a WebAssembly
// module that knows how programs in the published languages, and a few more, are
// started by the toolchains that backends offer.
//
// It builds with GOOS=wasip1 GOARCH=wasm -buildmode=c-shared; natively it builds
// for its tests.
package main

import (
	"github.com/caisson-run/caisson/sdk/guest"
	"github.com/caisson-run/caisson/sdk/language"
)

func init() { language.Serve(table(), plan) }

func main() {}

// plan answers for every row of recipes. Caller's arguments go to the program
// and never to what builds it.
func plan(r language.PlanRequest) (language.Plan, error) {
	known := false
	for _, row := range recipes {
		if row.language != r.Language {
			continue
		}
		known = true
		if row.toolchain != r.Toolchain {
			continue
		}
		p := language.Plan{File: row.file, Env: row.env}
		if len(row.build) > 0 {
			p.Steps = append(p.Steps, language.Step{Name: "compile", Argv: row.build})
		}
		p.Steps = append(p.Steps, language.Step{Name: "run", Argv: row.run, Args: r.Args})
		return p, nil
	}
	if !known {
		return language.Plan{}, &guest.Error{Code: language.CodeUnknownLanguage, Message: "no language " + r.Language}
	}
	return language.Plan{}, &guest.Error{Code: language.CodeUnknownToolchain, Message: r.Language + " has no toolchain " + r.Toolchain}
}
