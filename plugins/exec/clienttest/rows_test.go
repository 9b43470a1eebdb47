package clienttest

import (
	"fmt"
	"maps"
	"slices"
	"testing"
)

// row is one edge case of the wire reference (§8), by the number it has there, as a
// client meets it at the built server.
type row struct {
	number int
	about  string
	run    func(t *testing.T, s server)
}

// TestRows runs them all. Those that need a clock, a failure or money of the test's own
// are tests of plugins/exec; coverage_test.go there says where each row is held.
func TestRows(t *testing.T) { runRows(t, startServer(t)) }

func runRows(t *testing.T, s server) {
	numbers := make(map[int]bool)
	for _, r := range slices.Concat(nameRows, inputRows, outputRows, wireRows) {
		if numbers[r.number] {
			t.Errorf("row %d twice", r.number)
		}
		numbers[r.number] = true
		t.Run(fmt.Sprintf("row %d: %s", r.number, r.about), func(t *testing.T) { r.run(t, s) })
	}
	t.Logf("%d rows: %d", len(numbers), slices.Sorted(maps.Keys(numbers)))
}
