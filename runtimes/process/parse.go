package process

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"unicode"

	"github.com/hashicorp/go-hclog"
)

// parser turns a line of a plugin's standard error into a log entry: JSON with
// the keys of hclog or slog, or text.
type parser struct {
	// crashing is set by the first line of a Go crash: what follows is its trace.
	crashing bool
}

func (p *parser) emit(log hclog.Logger, line string) {
	if strings.HasPrefix(line, "{") {
		var fields map[string]any
		if json.Unmarshal([]byte(line), &fields) == nil {
			p.crashing = false
			emitFields(log, fields, line)
			return
		}
	}
	level := p.level(line)
	if level < log.GetLevel() {
		return
	}
	log.Log(level, printable(line))
}

// level guesses that of a line of text.
func (p *parser) level(line string) hclog.Level {
	if isCrash(line) {
		p.crashing = true
	}
	if p.crashing {
		return hclog.Error
	}
	if word, _, ok := strings.Cut(strings.TrimPrefix(line, "["), "]"); ok && line[0] == '[' {
		if l := levelOf(word); l != hclog.NoLevel {
			return l
		}
	}
	return hclog.Info
}

// isCrash recognises the first line of what the Go runtime says when it gives up.
func isCrash(line string) bool {
	return strings.HasPrefix(line, "panic: ") || strings.HasPrefix(line, "fatal error: ")
}

// emitFields logs one JSON object. Its members keep their names, in lexical
// order; the time is that of its arrival.
func emitFields(log hclog.Logger, fields map[string]any, line string) {
	level := levelOf(take(fields, "@level", "level"))
	if level == hclog.NoLevel {
		level = hclog.Info
	}
	if level < log.GetLevel() {
		return
	}
	msg := takeMessage(fields)
	if msg == "" {
		log.Log(level, printable(line)) // some other JSON
		return
	}
	args := make([]any, 0, 2*len(fields))
	for _, k := range slices.Sorted(maps.Keys(fields)) {
		args = append(args, printable(strings.TrimPrefix(k, "@")), fields[k])
	}
	log.Log(level, printable(msg), args...)
}

// takeMessage leaves in fields what belongs to the message.
func takeMessage(fields map[string]any) string {
	take(fields, "@timestamp", "time", "ts")
	return take(fields, "@message", "msg", "message")
}

// take removes the first of these members that is a string.
func take(fields map[string]any, keys ...string) string {
	for _, k := range keys {
		if s, ok := fields[k].(string); ok {
			delete(fields, k)
			return s
		}
	}
	return ""
}

// plain is a log line for people.
func plain(line string) string {
	var fields map[string]any
	if json.Unmarshal([]byte(line), &fields) == nil {
		if msg := takeMessage(fields); msg != "" {
			if cause, ok := fields["error"].(string); ok {
				msg += ": " + cause
			}
			line = msg
		}
	}
	return printable(strings.TrimSpace(line))
}

// levelOf reads the words of hclog and slog; those between slog's levels
// ("DEBUG-4", "INFO+2") count as the level they are named after.
func levelOf(word string) hclog.Level {
	if i := strings.IndexAny(word, "+-"); i > 0 {
		word = word[:i]
	}
	switch strings.ToLower(word) {
	case "warning":
		return hclog.Warn
	case "fatal", "panic", "critical", "err":
		return hclog.Error
	case "off":
		return hclog.NoLevel
	default:
		return hclog.LevelFromString(word)
	}
}

// printable keeps a plugin from writing terminal codes, or what looks like lines
// of somebody else, into the host's log.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if r == '\t' || unicode.IsPrint(r) {
			return r
		}
		return unicode.ReplacementChar
	}, s)
}
