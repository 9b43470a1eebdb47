package config_test

import (
	"errors"
	"path/filepath"
	"strings"
	"syscall"
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

// TestLists: each element of these lists is loaded.
func TestLists(t *testing.T) {
	for list, element := range map[string]string{"policies": "{plugin: limits}", "languages": "a", "backends": "{plugin: wasm}"} {
		_, err := config.Parse("caisson.yaml", []byte(list+": ["+strings.Repeat(element+",", 65)+"]"))
		e, ok := errors.AsType[*config.Error](err)
		if !ok || e.Field != list || e.Reason != "has 65 elements, and at most 64 are allowed" {
			t.Errorf("%s: %v", list, err)
		}
	}
	if _, err := config.Parse("caisson.yaml", []byte("policies: ["+strings.Repeat("{plugin: limits},", 64)+"]")); err != nil {
		t.Error(err)
	}
}

// TestLoadTakesFiles: a pipe without a writer would hold up whoever opens it.
func TestLoadTakesFiles(t *testing.T) {
	pipe := filepath.Join(t.TempDir(), "caisson.yaml")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{pipe, t.TempDir()} {
		if _, err := config.Load(path); err == nil || !strings.Contains(err.Error(), "is not a file") {
			t.Errorf("%s: %v", path, err)
		}
	}
}
