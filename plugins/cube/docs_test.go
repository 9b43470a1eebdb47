package main

import (
	"encoding/json"
	"testing"

	"github.com/caisson-run/caisson/plugins/cube/internal/dialect"
	"github.com/caisson-run/caisson/plugins/internal/plugintest"
)

// TestExamples are the configurations of docs/cube.md.
func TestExamples(t *testing.T) {
	plugintest.Examples(t, readManifest(t), func(raw json.RawMessage) error {
		_, err := dialect.Open(name, raw)
		return err
	})
}
