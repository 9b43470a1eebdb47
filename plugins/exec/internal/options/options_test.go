package options

import (
	"testing"
	"time"
)

func TestNoneNegative(t *testing.T) {
	type some struct {
		Name        string
		Bytes       int64
		Wait        time.Duration
		Many        map[string]int
		unexplained int
	}
	for _, c := range []struct {
		options some
		want    string
	}{
		{some{}, ""},
		{some{Bytes: 1, Wait: 1, Many: map[string]int{"a": -1}, unexplained: -1}, ""},
		{some{Bytes: -1, Wait: -1}, "Bytes is negative; 0 stands for its default"},
		{some{Wait: -time.Second}, "Wait is negative; 0 stands for its default"},
	} {
		var got string
		if err := NoneNegative(c.options); err != nil {
			got = err.Error()
		}
		if got != c.want {
			t.Errorf("%+v: %q, want %q", c.options, got, c.want)
		}
	}
}

func TestDefault(t *testing.T) {
	a, b := 0, 3
	Default(&a, 7)
	Default(&b, 7)
	if a != 7 || b != 3 {
		t.Errorf("%d, %d", a, b)
	}
}
