package main

import (
	"strings"
	"testing"
)

// What is in strings and comments is not code. What is left is compared without blanks;
// of a string its first quote is.
func TestLex(t *testing.T) {
	for name, c := range map[string]struct{ language, code, want string }{
		"python, a string ends with its line":    {"py", "a = 'x\nos.system", "a='os.system"},
		"python, three quotes":                   {"py", "a = '''x\n'y' # z\n'''; b", "a=';b"},
		"C, a string ends with its line":         {"c", "a = \"x\nsystem", "a=\"system"},
		"JavaScript, a template does not":        {"js", "a = `x\n// y\n`; b // z", "a=`;b"},
		"Ruby, a string goes on":                 {"rb", "a = \"x\n# y\n\"; b", "a=\";b"},
		"PHP, a string goes on":                  {"php", "$a = 'x\n// y\n'; b", "$a=';b"},
		"Rust, a string goes on":                 {"rs", "let a = \"x\n// y\n\"; b", "leta=\";b"},
		"Rust, an escaped quote":                 {"rs", `let a = "\""; b`, `leta=";b`},
		"Rust, a raw string takes no escapes":    {"rs", `let a = r"\"; b; "x"`, `leta=r";b;"`},
		"Rust, a raw string with a quote":        {"rs", `let a = br##"x"# // y"##; b`, `leta=br##";b`},
		"Rust, a word that ends in r":            {"rs", `bar!("\"x"); b`, `bar!(");b`},
		"Rust, a quote is a character":           {"rs", `let a = '"'; b; let c = '\"'; d`, `leta='"';b;letc='\"';d`},
		"Rust, a raw string that does not end":   {"rs", `let a = r#"x"; b`, `leta=r#"`},
		"SQL, a string goes on":                  {"sql", "select 'x\n-- y\n', b", "select',b"},
		"SQL, a backslash is a character":        {"sql", `select '\', b, 'x'`, `select',b,'`},
		"SQL, two quotes are one":                {"sql", `select 'it''s', b`, `select'',b`},
		"shell, single quotes take no escapes":   {"bash", `a='\'; b`, `a=';b`},
		"shell, a comment begins where words do": {"bash", "a#b # c", "a#b"},
	} {
		s := lex(c.language, c.code)
		got := strings.Map(func(r rune) rune {
			if r == inPlace || r == ' ' || r == '\n' {
				return -1
			}
			return r
		}, s.code)
		if got != c.want || len(s.code) != len(c.code) || len(s.text) != len(c.code) {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}
