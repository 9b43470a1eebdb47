package manifest_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/caisson-run/caisson/manifest"
)

// withConfig is the plugin with a config schema, given as lines of YAML.
func withConfig(t testing.TB, schema string) *manifest.Manifest {
	t.Helper()
	return parse(t, backend+"config:\n  "+strings.ReplaceAll(strings.TrimSpace(schema), "\n", "\n  ")+"\n")
}

// checkConfigErrors holds errors to their promises: typed, about one field each,
// one line.
func checkConfigErrors(t *testing.T, err error) {
	t.Helper()
	list := []error{err}
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		list = joined.Unwrap()
	}
	for _, one := range list {
		var e *manifest.ConfigError
		if !errors.As(one, &e) || e.Plugin == "" || e.Rule == "" || (e.Field != "" && e.Field[0] != '/') {
			t.Errorf("not a ConfigError that names field and rule: %#v", one)
		}
		if strings.Contains(one.Error(), "\n") {
			t.Errorf("more than a line: %q", one.Error())
		}
	}
}

func TestValidateConfig(t *testing.T) {
	src, err := os.ReadFile(filepath.Join(fixtures, "good", "backend-full.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	full := parse(t, string(src))
	forms := withConfig(t, `
additionalProperties: true
properties:
  const: { const: fixed }
  type: { type: [integer, "null"] }
  short: { minLength: 2, maxLength: 3 }
  number: { exclusiveMinimum: 0, exclusiveMaximum: 10, multipleOf: 0.5 }
  most: { maximum: 5 }
  list: { minItems: 1, maxItems: 2, contains: { const: a }, maxContains: 1 }
  some: { contains: { const: a }, minContains: 2 }
  map: { minProperties: 1, maxProperties: 1, patternProperties: { "^[a-z]+$": true } }
  not: { not: { const: bad } }
  either: { anyOf: [{ type: string }, { type: object, required: [a] }] }
  never: false
  when: { type: object, additionalProperties: true, if: { required: [a] }, then: { required: [b] } }
  pair: { prefixItems: [{ properties: { x: true } }, { properties: { "y": true } }] }
  bidi: { const: "\u202e" }
  chosen: { anyOf: [{ properties: { a: { properties: { b: true }, additionalProperties: false } } }, { properties: { a: { type: boolean } } }] }
dependentRequired: { cert: [key] }
`)
	composed := withConfig(t, `
$ref: "#/$defs/base"
properties:
  extra: { $ref: "#/$defs/base" }
$defs:
  base:
    required: [host]
    properties: { host: { type: string } }
`)
	for _, tt := range []struct {
		m      *manifest.Manifest
		config string
		want   []string
	}{
		{full, `{"image":"python:3.13"}`, nil},
		{full, ``, []string{`/image: required`}},
		{full, ` {} `, []string{`/image: required`}},
		{full, `null`, []string{`: must be an object`}},
		{full, `[]`, []string{`: must be an object`}},
		{full, `{"image":`, []string{`: not JSON: it ends too early`}},
		{full, `{"image":x`, []string{`: not JSON: error at byte 10`}},
		{full, `{"image":"a"} x`, []string{`: more than one JSON value`}},
		{full, `{"image":1e999999999}`, []string{`/image: not a number of reasonable size`}},
		{full, `{"image":"a","labels":{"x":[1,-1e-999999]}}`, []string{`/labels/x/1: not a number of reasonable size`}},
		{full, `{"image":"` + strings.Repeat("a", manifest.MaxConfigSize) + `"}`, []string{`: larger than 64 KiB`}},
		{full, `{"image":"A b","memory":1,"imgae":"x"}`, []string{
			`/image: must match ^[a-z0-9./:@-]+$`, `/imgae: unknown key (did you mean image?)`, `/memory: must be at least 67108864`,
		}},
		{full, `{"image":"a","network":{"mod":"none"}}`, []string{`/network/mod: unknown key (did you mean mode?)`}},
		{full, `{"image":"a","network":{"mode":"all","allow":["-bad-"]}}`, []string{
			`/network/allow/0: not a valid hostname`, `/network/mode: must be one of "none", "open", "allow"`,
		}},
		{full, `{"image":"a","network":{"allow":["a.b","c.d","a.b"]}}`, []string{`/network/allow: items 0 and 2 are equal`}},
		{full, `{"image":"a","labels":{"any/key":"x","other":1}}`, []string{`/labels/other: must be string, not number`}},
		{full, `{"image":"a","labels":{"a/b~c":1}}`, []string{`/labels/a~1b~0c: must be string, not number`}},
		{full, `{"image":"a","registries":[{"host":"h"},{"prot":1,"host":"h"}]}`, []string{`/registries/1/prot: unknown key (did you mean port?)`}},
		{full, `{"image":"a","auth":{}}`, []string{`/auth: matches none of the forms that are allowed: /token required, or /user required and /password required`}},
		{full, `{"image":"a","auth":{"token":"t"}}`, nil},
		{full, `{"image":"a","auth":{"token":"t","user":"u","password":"p"}}`, []string{`/auth: matches more than one of the forms that are allowed, which exclude each other`}},
		{full, `{"image":"a","auth":{"token":"t","tokne":"t"}}`, []string{`/auth/tokne: unknown key`}},

		{forms, `{"anything":{"goes":1}}`, nil},
		{forms, `{"const":"other"}`, []string{`/const: must be "fixed"`}},
		{forms, `{"type":null}`, nil},
		{forms, `{"type":1.0}`, nil},
		{forms, `{"type":1.5}`, []string{`/type: must be null or integer, not number`}},
		{forms, `{"short":"a"}`, []string{`/short: must have at least 2 characters`}},
		{forms, `{"short":"äöüß"}`, []string{`/short: must have at most 3 characters`}},
		{forms, `{"number":0}`, []string{`/number: must be more than 0`}},
		{forms, `{"number":10}`, []string{`/number: must be less than 10`}},
		{forms, `{"number":0.75}`, []string{`/number: must be a multiple of 0.5`}},
		{forms, `{"most":5.01}`, []string{`/most: must be at most 5`}},
		{forms, `{"list":[]}`, []string{`/list: must contain an item of the form that is asked for`, `/list: must have at least 1 items`}},
		{forms, `{"list":["a","a","b"]}`, []string{`/list: must contain at most 1 items of the form that is asked for`, `/list: must have at most 2 items`}},
		{forms, `{"some":["a"]}`, []string{`/some: must contain at least 2 items of the form that is asked for`}},
		{forms, `{"map":{}}`, []string{`/map: must have at least 1 keys`}},
		{forms, `{"map":{"A":1,"b":2}}`, []string{`/map: must have at most 1 keys`, `/map/A: unknown key`}},
		{forms, `{"not":"bad"}`, []string{`/not: has the form that is excluded`}},
		{forms, `{"either":{}}`, []string{`/either: matches none of the forms that are allowed: must be string, not object, or /a required`}},
		{forms, `{"never":1}`, []string{`/never: not allowed here`}},
		{forms, `{"when":{"a":1}}`, []string{`/when/b: required`}},
		{forms, `{"cert":"c"}`, []string{`/key: required when cert is given`}},

		{composed, `{"host":"h","extra":{"host":"h"}}`, nil},
		// A failing reference does not make its properties unknown besides.
		{composed, `{"host":1,"extra":{"host":"h"}}`, []string{`/host: must be string, not number`}},
		{composed, `{"host":"h","hots":1,"extra":{"host":"h","prot":1}}`, []string{
			`/extra/prot: unknown key (known: host)`, `/hots: unknown key (did you mean host?)`,
		}},

		{forms, `{"pair":[{"x":1},{"y":1}]}`, nil},
		{forms, `{"pair":[{"z":1}]}`, []string{`/pair/0/z: unknown key (known: x)`}},
		{forms, `{"pair":[{"x":1},{"x":1}]}`, []string{`/pair/1/x: unknown key (known: y)`}},
		{forms, `{"bidi":1}`, []string{`/bidi: must be "\"\u202e\""`}},
		{forms, `{"chosen":{"a":{"b":1}}}`, nil},
		{forms, `{"chosen":{"a":{"c":1}}}`, []string{`/chosen: matches none of the forms that are allowed: /a/c unknown key, or /a must be boolean, not object`}},

		{withConfig(t, `{}`), `{}`, nil},
		{withConfig(t, `{}`), `{"a":1}`, []string{`/a: unknown key`}},
		{withConfig(t, `{ type: object, additionalProperties: true }`), `{"a":1}`, nil},
		{withConfig(t, `{ properties: { a: { type: object } } }`), `{"a":{"free":"form"}}`, nil},
		{parse(t, backend), ``, nil},
		{parse(t, backend), `{}`, nil},
		{parse(t, backend), `{"a":1}`, []string{`: this plugin takes no configuration`}},
	} {
		err := tt.m.ValidateConfig([]byte(tt.config))
		var want []string
		for _, w := range tt.want {
			field, _, _ := strings.Cut(w, ":")
			if field != "" {
				w = " " + w
			}
			want = append(want, fmt.Sprintf("plugin %q: config%s", tt.m.Name, w))
		}
		got := ""
		if err != nil {
			checkConfigErrors(t, err)
			got = err.Error()
		}
		if got != strings.Join(want, "\n") {
			t.Errorf("%.80s:\n got %s\nwant %s", tt.config, got, strings.Join(want, "\n"))
		}
	}
}

// TestConfigErrorsKeepSecrets: configuration holds keys and passwords, and its
// errors go to logs.
func TestConfigErrorsKeepSecrets(t *testing.T) {
	const secret = "hunter2-hunter2"
	m := withConfig(t, `
properties:
  type: { type: integer }
  const: { const: x }
  enum: { enum: [a, b] }
  pattern: { pattern: "^[0-9]+$" }
  format: { format: ipv4 }
  long: { maxLength: 3 }
  not: { not: { type: string } }
  list: { uniqueItems: true, maxItems: 1, items: { enum: [x] } }
  either: { anyOf: [{ const: a }, { const: b }, { format: uri, pattern: x }] }
  exact: { oneOf: [{ type: string }, { pattern: hunter }] }
  number: { type: number, maximum: 5 }
`)
	for _, config := range []string{
		`{"type":"S","const":"S","enum":"S","pattern":"S","format":"S","long":"S","not":"S","list":["S","S"],"either":"S","exact":"S"}`,
		`{"number":"S"}`, `{"type":{"S":"S"}}`, `"S"`, `S`, `{"type":"S"`, `{"type":1} "S"`,
	} {
		config = strings.ReplaceAll(config, "S", secret)
		err := m.ValidateConfig([]byte(config))
		if err == nil {
			t.Errorf("%s is valid", config)
		} else if strings.Contains(err.Error(), secret) {
			t.Errorf("the secret is in %v", err)
		}
	}
}

// TestConfigErrorsKeepToOneLine: names of keys are the caller's, who may be a
// tenant, and end up in an operator's terminal.
func TestConfigErrorsKeepToOneLine(t *testing.T) {
	err := withConfig(t, `{}`).ValidateConfig([]byte(`{"a\n\u001b[31mplugin \"x\": ok": 1, "` + strings.Repeat("k", 5000) + `": 1}`))
	checkConfigErrors(t, err)
	if err == nil || strings.Contains(err.Error(), "\x1b") || len(err.Error()) > 1000 {
		t.Errorf("got %q", err)
	}
}

func TestCompleteConfig(t *testing.T) {
	m := withConfig(t, `
required: [size]
properties:
  size: { type: integer, default: 10 }
  net:
    type: object
    default: { allow: [a] }
    properties:
      mode: { type: string, default: none }
      allow: { type: array }
  tls:
    type: object
    properties: { verify: { type: boolean, default: true } }
  servers:
    type: array
    items: { $ref: "#/$defs/server" }
  main: { $ref: "#/$defs/server" }
  off: { type: [string, "null"], default: null }
$defs:
  server:
    type: object
    default: { host: localhost }
    properties:
      host: { type: string }
      port: { type: integer, default: 443 }
`)
	for _, tt := range []struct{ config, want string }{
		{``, `{"main":{"host":"localhost","port":443},"net":{"allow":["a"],"mode":"none"},"off":null,"size":10}`},
		{
			`{"size":1,"net":{},"tls":{},"main":{"port":1},"off":"x","servers":[{"host":"a"},{"port":2}]}`,
			`{"main":{"port":1},"net":{"mode":"none"},"off":"x","servers":[{"host":"a","port":443},{"port":2}],"size":1,"tls":{"verify":true}}`,
		},
		{
			`{"size":12345678901234567890,"main":{},"net":{"mode":"x"},"off":null}`,
			`{"main":{"port":443},"net":{"mode":"x"},"off":null,"size":12345678901234567890}`,
		},
	} {
		got, err := m.CompleteConfig([]byte(tt.config))
		if err != nil || string(got) != tt.want {
			t.Errorf("%s:\n got %s, %v\nwant %s", tt.config, got, err, tt.want)
		}
	}
	if _, err := m.CompleteConfig([]byte(`{"size":"x"}`)); err == nil {
		t.Error("a wrong value was completed")
	}
	if got, err := parse(t, backend).CompleteConfig(nil); err != nil || string(got) != "{}" {
		t.Errorf("no schema: %s, %v", got, err)
	}
}

// TestConfigConcurrently is for the race detector: one manifest, many callers,
// and defaults that must be copied and not shared.
func TestConfigConcurrently(t *testing.T) {
	m := withConfig(t, `
properties:
  net: { type: object, default: {}, properties: { mode: { default: none }, list: { type: array, default: [1] } } }
`)
	const want = `{"net":{"list":[1],"mode":"none"}}`
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 50 {
				if got, err := m.CompleteConfig(nil); err != nil || string(got) != want {
					t.Errorf("got %s, %v", got, err)
				}
				if err := m.ValidateConfig([]byte(`{"nte":1}`)); err == nil {
					t.Error("a wrong key was accepted")
				}
			}
		})
	}
	wg.Wait()
}
