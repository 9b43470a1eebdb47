// Package languages knows what an image runs: what its label says, or what the
// operator says of an image that has none (plugins/docker/images/README.md). It asks
// no engine.
package languages

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/caisson-run/caisson/sdk/backend"
)

// Label is the name of the label of images that says what runs there:
// LANGUAGE=TOOLCHAIN@VERSION, separated by white space. @VERSION may be left out.
const Label = "run.caisson.languages"

// known is what the full image has: what else the language table could run needs an
// image of the operator's that says so.
const known = "py=cpython js=node ts=esbuild c=gcc cpp=gcc java=openjdk php=php rs=rustc go=go d=ldc2 f90=gfortran r=rscript bash=bash rb=ruby sql=sqlite"

const (
	maxText    = 16 << 10
	maxEntries = 256
)

// entry is one word of a label. Ids and toolchains are spelled as the contract of
// language tables wants them.
var entry = regexp.MustCompile(`^([a-z][a-z0-9_-]{0,31})=([a-z][a-z0-9+._-]{0,31})(?:@([!-~]{1,64}))?$`)

// Parse reads the value of a label, or what an operator wrote in its form. A
// language may come more than once, with another toolchain each time.
func Parse(text string) ([]backend.LanguageSupport, error) {
	if len(text) > maxText {
		return nil, fmt.Errorf("more than %d bytes", maxText)
	}
	var out []backend.LanguageSupport
	for word := range strings.FieldsSeq(text) {
		m := entry.FindStringSubmatch(word)
		if m == nil {
			return nil, fmt.Errorf("%q is not LANGUAGE=TOOLCHAIN or LANGUAGE=TOOLCHAIN@VERSION", word[:min(len(word), 40)])
		}
		s := backend.LanguageSupport{ID: m[1], Toolchain: m[2], Version: m[3]}
		switch {
		case slices.ContainsFunc(out, func(o backend.LanguageSupport) bool { return o.ID == s.ID && o.Toolchain == s.Toolchain }):
			return nil, fmt.Errorf("%s=%s is there twice", s.ID, s.Toolchain)
		case len(out) == maxEntries:
			return nil, fmt.Errorf("more than %d entries", maxEntries)
		}
		out = append(out, s)
	}
	return out, nil
}

// Known is what a backend may offer whose images are not known yet.
func Known() []backend.LanguageSupport {
	out, err := Parse(known)
	if err != nil {
		panic(err) // a constant
	}
	return out
}

// Of returns what an image runs, and with a reason what of Known it does not.
// declared is what the operator says; it stands in place of the label, of which
// labels, those of the image, may have none.
func Of(image, declared string, labels map[string]string) []backend.LanguageSupport {
	text, from := declared, "languages"
	if text == "" {
		text, from = labels[Label], "its label "+Label
	}
	present, err := Parse(text)
	missing := fmt.Sprintf("image %q does not have it", image)
	switch {
	case err != nil:
		missing = fmt.Sprintf("what image %q runs is not known: %s: %v", image, from, err)
	case len(present) == 0:
		missing = fmt.Sprintf("image %q does not say what it runs: give it the label %s, or set languages", image, Label)
	}
	return append(present, Missing(missing, present)...)
}

// Missing is Known without what is there, each with the reason why it does not run.
func Missing(reason string, there []backend.LanguageSupport) []backend.LanguageSupport {
	var out []backend.LanguageSupport
	for _, k := range Known() {
		if !slices.ContainsFunc(there, func(t backend.LanguageSupport) bool { return t.ID == k.ID }) {
			k.Missing = reason
			out = append(out, k)
		}
	}
	return out
}
