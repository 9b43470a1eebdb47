// Package yamldepth bounds how deep a YAML document may be nested before anything is
// built of it: the parser that reads manifests and configurations takes time and memory
// that grow with the square of the depth (100,000 brackets took gigabytes).
package yamldepth

import "github.com/goccy/go-yaml/token"

// Exceeds returns the first token that stands more than most levels deep in brackets and
// braces, or behind more than most dashes on one line; nil if there is none. Indented
// blocks are not looked at: a file of bounded size cannot be deep in them.
func Exceeds(tokens token.Tokens, most int) *token.Token {
	flow, dashes, dashLine := 0, 0, 0
	for _, t := range tokens {
		switch t.Type {
		case token.SequenceStartType, token.MappingStartType:
			flow++
		case token.SequenceEndType, token.MappingEndType:
			flow--
		case token.SequenceEntryType:
			if t.Position.Line != dashLine {
				dashes, dashLine = 0, t.Position.Line
			}
			dashes++
		}
		if flow > most || dashes > most {
			return t
		}
	}
	return nil
}
