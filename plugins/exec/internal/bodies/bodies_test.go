package bodies

import (
	"errors"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const mib = 1 << 20

func TestBudget(t *testing.T) {
	b := New(40*Factor*mib, 20*Factor*mib, Factor*mib)
	one, two, other := b.Open("a"), b.Open("a"), b.Open("b")
	if err := one.Read(Free); err != nil || b.Used() != 0 {
		t.Fatalf("the beginning costs %d, %v", b.Used(), err)
	}
	if err := one.Read(15 * mib); err != nil || b.Used() != 15*mib*Factor {
		t.Fatalf("%d, %v", b.Used(), err)
	}
	if err := two.Read(6 * mib); !errors.Is(err, ErrFull) {
		t.Errorf("more than a tenant may have: %v", err)
	}
	if err := other.Read(16 * mib); err != nil {
		t.Errorf("another tenant has no room: %v", err)
	}
	third := b.Open("c")
	if err := third.Read(20 * mib); !errors.Is(err, ErrFull) {
		t.Errorf("more than there is: %v", err)
	}
	if err := one.Decoded(3 * mib); err != nil {
		t.Error(err)
	}
	again := b.Open("a")
	if err := again.Read(6 * mib); err != nil {
		t.Errorf("what was decoded is not given back: %v", err)
	}
	parts := b.Open("a")
	parts.InParts()
	if err := parts.Read(8 * mib); err != nil {
		t.Error(err)
	}
	for _, x := range []*Body{parts, one, two, other, third, again, again} {
		x.Close()
	}
	if b.Used() != 0 || len(b.by) != 0 {
		t.Errorf("%d bytes are left, %v", b.Used(), b.by)
	}
	if err := again.Read(6 * mib); err != nil || b.Used() != 0 {
		t.Errorf("a closed body holds %d, %v", b.Used(), err)
	}
}

// However small a machine is, the largest body has room, of two tenants at once.
func TestLargest(t *testing.T) {
	b := New(0, 0, 48*Factor*mib)
	x, y, z := b.Open("a"), b.Open("b"), b.Open("a")
	if err := errors.Join(x.Read(48*mib), y.Read(48*mib)); err != nil {
		t.Error(err)
	}
	if err := z.Read(2 * mib); !errors.Is(err, ErrFull) {
		t.Errorf("a second one: %v", err)
	}
}
