package host_test

import (
	"math"
	"testing"

	"github.com/caisson-run/caisson/host"
)

func TestFee(t *testing.T) {
	const general, run, lease = "CODE_EXEC_FEE_CENTS", "CODE_EXEC_FEE_CENTS_RUN", "CODE_EXEC_FEE_CENTS_LEASE"
	tests := []struct {
		name string
		env  map[string]string
		act  string
		def  int64
		want int64
	}{
		{"nothing set", nil, "run", 1, 1},
		{"default is the caller's", nil, "run", 7, 7},
		{"general", map[string]string{general: "3"}, "run", 1, 3},
		{"specific", map[string]string{run: "4"}, "run", 1, 4},
		{"specific wins", map[string]string{general: "3", run: "4"}, "run", 1, 4},
		{"specific zero is free", map[string]string{general: "3", run: "0"}, "run", 1, 0},
		{"general zero is free", map[string]string{general: "0"}, "run", 1, 0},
		{"negative general", map[string]string{general: "-5"}, "run", 1, 1},
		{"words", map[string]string{general: "abc"}, "run", 1, 1},
		{"empty", map[string]string{general: ""}, "run", 1, 1},
		{"blank", map[string]string{general: "  "}, "run", 1, 1},
		{"negative specific falls to general", map[string]string{general: "3", run: "-5"}, "run", 1, 3},
		{"garbled specific falls to general", map[string]string{general: "3", run: "4 cents"}, "run", 1, 3},
		{"both garbled", map[string]string{general: "x", run: "y"}, "run", 1, 1},
		{"space around", map[string]string{general: " \t12\n"}, "run", 1, 12},
		{"plus sign", map[string]string{general: "+2"}, "run", 1, 2},
		{"minus zero is no zero", map[string]string{general: "-0"}, "run", 1, 1},
		{"fraction", map[string]string{general: "0.5"}, "run", 1, 1},
		{"hexadecimal", map[string]string{general: "0x10"}, "run", 1, 1},
		{"underscore", map[string]string{general: "1_0"}, "run", 1, 1},
		{"leading zero is decimal", map[string]string{general: "010"}, "run", 1, 10},
		{"largest", map[string]string{general: "9223372036854775807"}, "run", 1, math.MaxInt64},
		{"out of range", map[string]string{general: "9223372036854775808"}, "run", 1, 1},
		{"run price is no lease price", map[string]string{general: "3", run: "4"}, "lease", 0, 0},
		{"lease has its own", map[string]string{general: "3", lease: "2"}, "lease", 0, 2},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			env := func(name string) (string, bool) { v, ok := tt.env[name]; return v, ok }
			if got := host.Fee(env, tt.act, tt.def); got != tt.want {
				t.Errorf("Fee(%v, %q, %d) = %d, want %d", tt.env, tt.act, tt.def, got, tt.want)
			}
		})
	}
}
