package admission

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"testing"

	"github.com/caisson-run/caisson/host"
	"github.com/caisson-run/caisson/host/ledger"
)

// brokenWallets answers with an error of its own making.
type brokenWallets struct{ err error }

func (b brokenWallets) Standing(context.Context, host.Payer) error { return b.err }

func TestStanding(t *testing.T) {
	l, err := ledger.Open(t.Context(), filepath.Join(t.TempDir(), "ledger.db"), ledger.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	for _, wallet := range []host.Payer{"rich", "capped"} {
		if err := l.Credit(t.Context(), wallet, 10, string(wallet)); err != nil {
			t.Fatal(err)
		}
	}
	if err := l.SetCap(t.Context(), "capped", 0); err != nil {
		t.Fatal(err)
	}
	free := func(act host.Act) bool { return act != host.ActUpload }
	tests := []struct {
		name    string
		wallets Wallets
		priced  func(host.Act) bool
		payer   host.Payer
		want    error
	}{
		{"balance", l, nil, "rich", nil},
		{"no balance", l, nil, "poor", host.ErrInsufficient},
		{"capped", l, nil, "capped", host.ErrCap},
		{"unbilled", l, nil, "", nil},
		{"unbilled without wallets", nil, nil, "", nil},
		{"act without price", l, func(act host.Act) bool { return !free(act) }, "poor", host.ErrInsufficient},
		{"deployment without prices", nil, func(host.Act) bool { return false }, "poor", nil},
		{"priced without wallets", nil, nil, "rich", host.ErrUnavailable},
		{"wrapped refusal", brokenWallets{fmt.Errorf("x: %w", host.ErrInsufficient)}, nil, "rich", host.ErrInsufficient},
		{"unknown error", brokenWallets{errors.New("boom")}, nil, "rich", host.ErrUnavailable},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			a := newAdmission(t, Config{Wallets: tt.wallets, Priced: tt.priced})
			err := a.Standing(t.Context(), host.Principal{Org: "o", Payer: tt.payer}, host.ActUpload)
			if !errors.Is(err, tt.want) {
				t.Errorf("Standing = %v, want %v", err, tt.want)
			}
		})
	}
}
