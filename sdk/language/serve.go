package language

import (
	"github.com/caisson-run/caisson/sdk/guest"
	"github.com/caisson-run/caisson/sdk/guest/abi"
)

// Codes a table answers with when it cannot plan.
const (
	// CodeUnknownLanguage is for an id or alias that the table does not list.
	CodeUnknownLanguage = "unknown_language"
	// CodeUnknownToolchain is for a toolchain that the language does not list.
	CodeUnknownToolchain = "unknown_toolchain"
)

// Serve makes the module a language table that answers list with table and plan
// by calling plan. It is for the module's init function:
//
//	package main
//
//	import "github.com/caisson-run/caisson/sdk/language"
//
//	func init() {
//		table := language.Table{Languages: []language.Language{
//			{ID: "lua", Name: "Lua", Toolchains: []string{"lua"}},
//		}}
//		language.Serve(table, func(r language.PlanRequest) (language.Plan, error) {
//			run := language.Step{Name: "run", Argv: []string{"lua", "{dir}/main.lua"}, Args: r.Args}
//			return language.Plan{File: "main.lua", Steps: []language.Step{run}}, nil
//		})
//	}
//
//	func main() {}
//
// See sdk/guest for how it is built. plan returns a *guest.Error to choose the
// code the host sees. An invalid table panics, which stops the module from loading.
func Serve(table Table, plan func(PlanRequest) (Plan, error)) {
	if err := table.Validate(); err != nil {
		panic("language: " + err.Error())
	}
	list := table.AppendJSON(nil)
	guest.Handle(abi.OpList, func([]byte) ([]byte, error) { return list, nil })
	guest.Handle(abi.OpPlan, func(in []byte) ([]byte, error) {
		request, err := DecodePlanRequest(in)
		if err != nil {
			return nil, &guest.Error{Code: abi.CodeBadInput, Message: err.Error()}
		}
		p, err := plan(request)
		if err != nil {
			return nil, err
		}
		if err := p.Validate(); err != nil {
			return nil, &guest.Error{Code: "bad_plan", Message: err.Error()}
		}
		return p.AppendJSON(nil), nil
	})
}
