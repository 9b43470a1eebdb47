package config_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/caisson-run/caisson/host/config"
)

// Nesting is refused before the parser sees it: it takes gigabytes for what fits into
// a file of 200 KB.
func TestDepth(t *testing.T) {
	for name, text := range map[string]string{
		"lists":        "sessions: " + strings.Repeat("[", 100_000) + strings.Repeat("]", 100_000),
		"not closed":   "sessions: " + strings.Repeat("[", 500_000),
		"mappings":     "sessions: " + strings.Repeat("{a: ", 50_000),
		"on one line":  strings.Repeat("- ", 100_000) + "x",
		"just too far": "sessions: " + strings.Repeat("[", 33) + strings.Repeat("]", 33),
	} {
		_, err := config.Parse("caisson.yaml", []byte(text))
		e, ok := errors.AsType[*config.Error](err)
		if !ok || e.Line != 1 || e.Reason != "nested more than 32 levels deep" {
			t.Errorf("%s: %.200v", name, err)
		}
	}
	_, err := config.Parse("caisson.yaml", []byte("sessions: "+strings.Repeat("[", 32)+strings.Repeat("]", 32)))
	if err == nil || strings.Contains(err.Error(), "nested") {
		t.Errorf("32 levels: %v", err)
	}
}
