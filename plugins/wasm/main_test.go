package main

import (
	"testing"

	"github.com/caisson-run/caisson/manifest"
)

func TestVersionIsThatOfTheManifest(t *testing.T) {
	m, err := manifest.Load(".")
	if err != nil {
		t.Fatal(err)
	}
	if m.Version != version {
		t.Errorf("plugin.yaml says %s, the program %s", m.Version, version)
	}
}
