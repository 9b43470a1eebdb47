//go:build linux

package launch

import (
	"reflect"
	"strings"
	"testing"
)

func TestSpec(t *testing.T) {
	for _, want := range []Spec{
		{UID: 20000, GID: 1000, Argv: []string{"true"}, Dir: "/mnt/data"},
		{
			UID: 59999, GID: 1, Argv: []string{"a", "", "b\xff\n"}, Env: []string{"A=", "B=c d"}, Dir: "/x y", TTY: true,
			Processes: 5, FileBytes: 1 << 40, CPUSeconds: 3,
		},
	} {
		b := want.encode()
		var got Spec
		if err := got.decode(b[4:]); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%+v came as %+v: %v", want, got, err)
		}
		for n := range len(b) - 4 {
			if err := got.decode(b[4 : 4+n]); err == nil {
				t.Errorf("the first %d bytes are a spec", n)
			}
		}
	}
	for _, bad := range []Spec{{GID: 1, Argv: []string{"x"}}, {UID: 1, Argv: []string{"x"}}, {UID: 1, GID: 1}, {UID: -1, GID: 1, Argv: []string{"x"}}} {
		if err := new(Spec).decode(bad.encode()[4:]); err == nil {
			t.Errorf("%+v was accepted", bad)
		}
	}
}

func FuzzSpec(f *testing.F) {
	s := Spec{UID: 20000, GID: 1000, Argv: []string{"true"}, Env: []string{"A=b"}, Dir: "/"}
	f.Add(s.encode()[4:])
	f.Add([]byte(strings.Repeat("\xff", 80)))
	f.Fuzz(func(t *testing.T, b []byte) {
		var s Spec
		if s.decode(b) == nil && (s.UID <= 0 || s.GID <= 0 || len(s.Argv) == 0) {
			t.Errorf("%+v", s)
		}
	})
}
