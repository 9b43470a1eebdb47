package main

import (
	"encoding/json"
	"testing"

	"github.com/caisson-run/caisson/plugins/e2b/internal/dialect"
	"github.com/caisson-run/caisson/plugins/internal/plugintest"
)

// TestExamples are the configurations of docs/e2b.md.
func TestExamples(t *testing.T) {
	plugintest.Examples(t, readManifest(t), func(raw json.RawMessage) error {
		_, err := dialect.Open(name, raw)
		return err
	})
}
