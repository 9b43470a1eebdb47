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
	plugintest.Conformance(t, name, controlfake.E2B, `{"template_id":"base"}`)
}
