package command

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
)

// What others write reaches no terminal as it is, and programs get it as it is.
func TestOutputIsInert(t *testing.T) {
	hostile := "a\x1b[31mb\x9b1m\u009b2J\u202egnp\x7f\r\nforged: yes\x00\t\"q\" \\ ü 🌧 \U000e0041\u2028"
	for _, r := range safe(hostile) {
		if unprintable(r) {
			t.Errorf("safe leaves %U", r)
		}
	}
	if got := safe("plain \"text\" \\ ü 🌧"); got != "plain \"text\" \\ ü 🌧" {
		t.Errorf("plain text became %s", got)
	}
	var out bytes.Buffer
	if err := printJSON(&out, []string{hostile}); err != nil {
		t.Fatal(err)
	}
	for _, r := range out.String() {
		if unprintable(r) && r != '\n' {
			t.Errorf("JSON has %U", r)
		}
	}
	var back []string
	want := strings.ToValidUTF8(strings.ReplaceAll(hostile, "\x9b1m", "\ufffd1m"), "")
	if err := json.Unmarshal(out.Bytes(), &back); err != nil || len(back) != 1 || back[0] != want {
		t.Errorf("%q %v, want %q", back, err, want)
	}
}

// A plugin's word in the report of doctor is a cell like any other.
func TestDoctorIsInert(t *testing.T) {
	r := &report{Version: "v1", Backends: []backendReport{{
		ID: "a", Plugin: "p", State: problem, Detail: "down " + hostileText, Probe: hostileText,
		Languages: []languageReport{{ID: "py", Name: "Python", Toolchain: hostileText}},
	}}}
	r.add("plugin p", problem, "mend "+hostileText, "%s", hostileText)
	var out bytes.Buffer
	if err := r.print(&out); err != nil {
		t.Fatal(err)
	}
	checkForm(t, "txt", result{stdout: out.String()})
	if strings.Contains(out.String(), "\nstate ") {
		t.Errorf("a line is forged:\n%s", out.String())
	}
}
