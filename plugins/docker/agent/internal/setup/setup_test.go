//go:build linux

package setup

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
)

func TestIntroduce(t *testing.T) {
	line := func(name string) string { return fmt.Sprintf("%s:x:20001:1000::/tmp:/bin/sh\n", name) }
	for name, c := range map[string]struct{ before, after, who string }{
		"new":          {"root:x:0:0::/:/bin/sh\n", "root:x:0:0::/:/bin/sh\n" + line("caisson"), "caisson"},
		"no newline":   {"root:x:0:0::/:/bin/sh", "root:x:0:0::/:/bin/sh\n" + line("caisson"), "caisson"},
		"empty":        {"", line("caisson"), "caisson"},
		"there":        {"x:x:20001:5::/:/\n", "x:x:20001:5::/:/\n", "x"},
		"name taken":   {"caisson:x:1000:1000::/:/\n", "caisson:x:1000:1000::/:/\n" + line("caisson-run"), "caisson-run"},
		"names taken":  {"caisson::1:\ncaisson-run::2:\ncaisson-session::3:\n", "caisson::1:\ncaisson-run::2:\ncaisson-session::3:\n", "caisson"},
		"strange text": {"\n::::\nno fields\n", "\n::::\nno fields\n" + line("caisson"), "caisson"},
	} {
		path := filepath.Join(t.TempDir(), "passwd")
		if err := os.WriteFile(path, []byte(c.before), 0o644); err != nil {
			t.Fatal(err)
		}
		for range 2 { // the second time it is there
			if who := introduce(path, 20001, line); who != c.who {
				t.Errorf("%s: the user is %q, want %q", name, who, c.who)
			}
		}
		if b, err := os.ReadFile(path); err != nil || string(b) != c.after {
			t.Errorf("%s: %q, %v, want %q", name, b, err, c.after)
		}
	}
	link := filepath.Join(t.TempDir(), "link")
	target := filepath.Join(t.TempDir(), "target")
	if err := os.WriteFile(target, []byte("x:x:1:1\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(target, link); err != nil {
		t.Fatal(err)
	}
	introduce(link, 20001, line)
	if b, _ := os.ReadFile(target); string(b) != "x:x:1:1\n" {
		t.Errorf("a link was followed: %q", b)
	}
}
