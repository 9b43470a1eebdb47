package backendtest_test

import (
	"testing"

	"github.com/caisson-run/caisson/sdk/backend"
	"github.com/caisson-run/caisson/sdk/backend/backendtest"
)

// claimed is what mutants say that they lack. The reference backend lacks paths.
var claimed = map[string]backendtest.Lack{
	"lacks links it has":       backendtest.LackLinksOut,
	"lacks directories it has": backendtest.LackDirectories,
	"lacks paths it has":       backendtest.LackPaths,
}

// Whoever lacks something is held to it.
var lackMutations = []mutation{
	{"lacks links it has", "refused/links", func(*testing.T, *mutant) {}},
	{"lacks directories it has", "run/directory", startsInDataDir},
	{"lacks paths it has", "run/directory", startsInDataDir},
	{"lacks paths it has", "run/program_gone", startsInDataDir},
	{"lacks paths it has", "control/of_another_run", startsInDataDir},
}

// startsInDataDir has programs print that they start where the contract says.
func startsInDataDir(_ *testing.T, m *mutant) {
	m.tells(wrapIO{stdout: func(live backend.RunIO, p []byte) error {
		if len(p) > 0 && p[0] == '/' {
			p = []byte(backend.DataDir)
		}
		return live.Stdout(p)
	}})
}
