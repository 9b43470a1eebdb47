package clang

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// fake returns a loader whose tools are empty, and what counts its attempts.
func fake(open func(context.Context) error) (*loader, *int) {
	attempts := new(int)
	l := &loader{}
	l.init(Config{})
	l.openTools = func(ctx context.Context) (*tools, error) {
		*attempts++
		if err := open(ctx); err != nil {
			return nil, err
		}
		return &tools{headersDone: make(chan struct{})}, nil
	}
	l.finish = func(context.Context, *tools) error { return nil }
	return l, attempts
}

// The tools are loaded once for all who come, kept while one uses them, dropped when
// nobody has for a while, and loaded again.
func TestLoaderDrops(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, attempts := fake(func(context.Context) error {
			time.Sleep(time.Minute)
			return nil
		})
		var wg sync.WaitGroup
		releases := make([]func(), 10)
		for i := range releases {
			wg.Go(func() {
				_, release, err := l.acquire(context.Background())
				if err != nil {
					t.Error(err)
				}
				releases[i] = release
			})
		}
		wg.Wait()
		if *attempts != 1 {
			t.Fatalf("%d attempts", *attempts)
		}
		for _, release := range releases[1:] {
			release()
			release() // twice is once
		}
		time.Sleep(2 * idleTime)
		if l.loaded() != true {
			t.Fatal("dropped while in use")
		}
		releases[0]()
		time.Sleep(idleTime - time.Second)
		_, release, err := l.acquire(context.Background())
		if err != nil || *attempts != 1 {
			t.Fatal(err, *attempts)
		}
		release()
		time.Sleep(idleTime + time.Second)
		if l.loaded() {
			t.Fatal("kept although nobody needs it")
		}
		if _, release, err = l.acquire(context.Background()); err != nil || *attempts != 2 {
			t.Fatal(err, *attempts)
		}
		release()
		if err := l.close(context.Background()); err != nil {
			t.Fatal(err)
		}
		if _, _, err := l.acquire(context.Background()); !errors.Is(err, errClosed) {
			t.Errorf("after close: %v", err)
		}
	})
}

// Whoever loses patience gets the reason, and those behind get the tools; a failure
// is tried again by the next.
func TestLoaderWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		failure := errors.New("failure")
		fail := true
		l, attempts := fake(func(ctx context.Context) error {
			time.Sleep(time.Minute)
			if fail {
				return failure
			}
			return ctx.Err()
		})
		if _, _, err := l.acquire(context.Background()); !errors.Is(err, failure) {
			t.Fatal(err)
		}
		fail = false
		cause := errors.New("cause")
		ctx, cancel := context.WithTimeoutCause(context.Background(), time.Second, cause)
		defer cancel()
		if _, _, err := l.acquire(ctx); !errors.Is(err, cause) {
			t.Fatal(err)
		}
		_, release, err := l.acquire(context.Background())
		if err != nil || *attempts != 2 {
			t.Fatal(err, *attempts)
		}
		release()
		if err := l.close(context.Background()); err != nil {
			t.Fatal(err)
		}
	})
}

// Close ends what is loading.
func TestLoaderCloses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, _ := fake(func(ctx context.Context) error {
			<-ctx.Done()
			return fmt.Errorf("load: %w", context.Cause(ctx))
		})
		got := make(chan error)
		go func() {
			_, _, err := l.acquire(context.Background())
			got <- err
		}()
		synctest.Wait()
		if err := l.close(context.Background()); err != nil {
			t.Fatal(err)
		}
		if err := <-got; !errors.Is(err, errClosed) {
			t.Errorf("got %v", err)
		}
	})
}
