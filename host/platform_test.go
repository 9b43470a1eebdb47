package host_test

import (
	"errors"
	"fmt"
	"net/http"
	"sync"
	"testing"

	"github.com/caisson-run/caisson/host"
)

// The sentinels are told apart through any wrapping, and never stand for one another.
func TestBillingSentinels(t *testing.T) {
	all := []error{host.ErrInsufficient, host.ErrCap, host.ErrUnavailable}
	for i, err := range all {
		wrapped := fmt.Errorf("reserve: %w", errors.Join(errors.New("detail"), err))
		for j, other := range all {
			if got := errors.Is(wrapped, other); got != (i == j) {
				t.Errorf("errors.Is(%v, %v) = %v", wrapped, other, got)
			}
		}
	}
}

func TestHTTPError(t *testing.T) {
	cause := errors.New("dial: refused")
	err := fmt.Errorf("admit: %w", &host.HTTPError{
		Status: http.StatusServiceUnavailable, Code: "auth_unavailable", Message: "try later", Cause: cause,
	})
	refusal, ok := errors.AsType[*host.HTTPError](err)
	if !ok || refusal.Status != 503 || refusal.Code != "auth_unavailable" {
		t.Fatalf("errors.AsType(%v) = %+v, %v", err, refusal, ok)
	}
	if !errors.Is(err, cause) {
		t.Error("the cause is not reachable through Unwrap")
	}
	if got := refusal.Error(); got != "try later: dial: refused" {
		t.Errorf("Error() = %q", got)
	}
	if got := (&host.HTTPError{Message: "no"}).Error(); got != "no" {
		t.Errorf("Error() without cause = %q", got)
	}
}

// Free lets every call through at no cost, from any number of goroutines.
func TestFree(t *testing.T) {
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			charge, err := host.Free.Reserve(t.Context(), "acme", host.ActRun, 1<<40)
			if err != nil {
				t.Errorf("Reserve: %v", err)
				return
			}
			defer charge.Release()
			if err := charge.Debit(t.Context(), host.Usage{RunID: "r", Cents: 1 << 40}); err != nil {
				t.Errorf("Debit: %v", err)
			}
		})
	}
	wg.Wait()
}
