package main

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/caisson-run/caisson/plugins/internal/controlfake"
	"github.com/caisson-run/caisson/plugins/internal/plugintest"
)

func TestMain(m *testing.M) {
	plugintest.Main(main, func() { goleak.VerifyTestMain(m) })
}

func TestConformance(t *testing.T) {
	if testing.Short() {
		t.Skip("the kit of plugins/e2b runs the same code")
	}
	plugintest.Conformance(t, name, controlfake.Cube, `{"template_id":"base","api_url":"https://api.example","sandbox_domain":"sandbox.test"}`)
}
