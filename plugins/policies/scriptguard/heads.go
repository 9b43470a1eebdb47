package main

import (
	"regexp"
	"strings"
)

// heads are beginnings of commands. A text is looked at word by word, which takes a
// small part of the time that a pattern for the whole text takes.
type heads struct {
	words   map[string]bool // that one of them begins with
	pattern *regexp.Regexp  // is tried where such a word stands
}

var (
	// calls are functions that start programs; what they are given follows on their line.
	calls = headsOf(`\s*\(`, `os\.(?:system|popen|exec\w*)`, `subprocess\.\w+`, `pty\.spawn`, `execSync`, `spawnSync`, `spawn`,
		`execFile`, `exec\.Command`, `Command::new`, `shell_exec`, `passthru`, `proc_open`, `popen`, `system`,
		`exec`, `execp`, `execl`, `execlp`, `execv`, `execvp`, `getRuntime\(\)\.exec`, `ProcessBuilder`)
	// shells are commands that take another one as text.
	shells = headsOf(`\s+`, `sh\s+-\w*c`, `bash\s+-\w*c`, `zsh\s+-\w*c`, `dash\s+-\w*c`,
		`eval`, `xargs`, `sudo`, `nohup`, `watch`)
)

// headsOf makes heads of patterns that begin with a word, and what has to follow them.
func headsOf(then string, list ...string) heads {
	h := heads{make(map[string]bool), regexp.MustCompile(`^(?:` + strings.Join(list, `|`) + `)` + then)}
	for _, p := range list {
		h.words[p[:wordEnd(p, 0)]] = true
	}
	return h
}

// wordEnd returns where the word that begins at i ends: at i if there is none.
func wordEnd(text string, i int) int {
	for ; i < len(text); i++ {
		if c := text[i]; c != '_' && (c < '0' || c > '9') && (c < 'A' || c > 'Z') && (c < 'a' || c > 'z') {
			break
		}
	}
	return i
}

const (
	// maxHead bounds a beginning in bytes.
	maxHead = 300
	// maxCommand bounds what is looked at behind the last beginning on a line, in bytes.
	maxCommand = 300
)

// span is a part of a text.
type span struct{ from, to int }

// spans are what follows beginnings outside of strings, without an overlap.
func (h heads) spans(s source) (out []span) {
	for i := 0; i < len(s.text); {
		end := wordEnd(s.text, i)
		if end == i {
			i++
			continue
		}
		begin := i
		i = end
		if !h.words[s.text[begin:end]] || s.inString(begin) {
			continue
		}
		m := h.pattern.FindStringIndex(s.text[begin:min(begin+maxHead, len(s.text))])
		if m == nil {
			continue
		}
		n := span{begin + m[1], min(begin+m[1]+maxCommand, len(s.text))}
		if k := strings.IndexByte(s.text[n.from:n.to], '\n'); k >= 0 {
			n.to = n.from + k
		}
		if last := len(out) - 1; last >= 0 && n.from <= out[last].to {
			out[last].to = n.to
			continue
		}
		out = append(out, n)
	}
	return out
}
