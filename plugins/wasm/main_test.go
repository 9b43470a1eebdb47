package main

import (
	"slices"
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

// What plugin verify leaves out is what the tests here leave out.
func TestLacksAreThoseOfTheManifest(t *testing.T) {
	m, err := manifest.Load(".")
	if err != nil {
		t.Fatal(err)
	}
	var lacks []string
	for _, l := range kit.Lacks {
		lacks = append(lacks, string(l))
	}
	if !slices.Equal(m.Lacks, lacks) {
		t.Errorf("plugin.yaml lacks %q, the conformance tests %q", m.Lacks, lacks)
	}
}
