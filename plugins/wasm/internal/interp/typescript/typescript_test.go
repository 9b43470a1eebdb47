package typescript

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// The test binary is its own helper.
func TestMain(m *testing.M) {
	if len(os.Args) == 2 && os.Args[1] == HelperArg {
		if err := Serve(os.Stdin, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	goleak.VerifyTestMain(m)
}

func newPool(t testing.TB) *Pool {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	p := NewPool([]string{exe, HelperArg})
	t.Cleanup(p.Close)
	return p
}

func TestTransform(t *testing.T) {
	p := newPool(t)
	for _, tc := range []struct{ file, source, code, problem string }{
		{"a.ts", "const x: number = 1 as any satisfies unknown;\n", "const x = 1;\n", ""},
		{"a.ts", "import type { T } from './t'; import { U } from './u'; let x: U;\n", "let x;\n", ""},
		{"a.ts", "import fs = require('fs'); fs;\n", "const fs = require(\"fs\");\nfs;\n", ""},
		{"a.tsx", "const e = <b>x</b>;\n", "const e = /* @__PURE__ */ React.createElement(\"b\", null, \"x\");\n", ""},
		{"a.ts", "let x: number = ;\n", "", "a.ts:1:17 - error: Unexpected \";\"\n\nlet x: number = ;\n                ^\n"},
		{"dir/b.mts", "\tlet ü = 'é\n", "", "dir/b.mts:1:12 - error: Unterminated string literal\n\n\tlet ü = 'é\n\t          ^\n"},
		{"a.ts", "let a = " + strings.Repeat("x", 1000) + " y;", "", "a.ts:1:1010 - error: Expected \";\" but found \"y\"\n"},
	} {
		res, err := p.Transform(t.Context(), tc.file, tc.source)
		if err != nil || res.Code != tc.code || res.Problem != tc.problem {
			t.Errorf("%q:\ncode %q\nproblem %q\n%v", tc.source, res.Code, res.Problem, err)
		}
		if tc.code != "" && res.Mappings == "" {
			t.Errorf("%q: no mappings", tc.source)
		}
	}
	if n := len(p.idle); n != 1 {
		t.Errorf("%d helpers are idle", n)
	}
}

// Sources that cost much more than they have bytes end with their helper.
func TestHostileSources(t *testing.T) {
	p := newPool(t)
	for name, source := range map[string]string{
		"memory": strings.Repeat("{", 40_000) + strings.Repeat("}", 40_000),
		"stack":  strings.Repeat("(", 1<<20),
		"time":   strings.Repeat("function f(){", 20_000) + strings.Repeat("}", 20_000),
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
			defer cancel()
			res, err := p.Transform(ctx, "a.ts", source)
			if !errors.Is(err, ErrGaveUp) && !errors.Is(err, context.DeadlineExceeded) && res.Problem == "" {
				t.Errorf("%d bytes of code, %v", len(res.Code), err)
			}
		})
	}
	if _, err := p.Transform(t.Context(), "a.ts", strings.Repeat(" ", MaxSourceBytes+1)); !errors.Is(err, ErrTooLarge) {
		t.Errorf("large source: %v", err)
	}
	if res, err := p.Transform(t.Context(), "a.ts", "let x: 1"); err != nil || res.Code != "let x;\n" {
		t.Errorf("afterwards: %+v, %v", res, err)
	}
}

func TestCancelKills(t *testing.T) {
	p := newPool(t)
	ctx, cancel := context.WithCancelCause(t.Context())
	gone := errors.New("the caller is gone")
	done := make(chan error)
	go func() {
		_, err := p.Transform(ctx, "a.ts", strings.Repeat("function f(){", 3000)+strings.Repeat("}", 3000))
		done <- err
	}()
	cancel(gone)
	if err := <-done; !errors.Is(err, gone) {
		t.Errorf("got %v", err)
	}
	if len(p.idle) != 0 {
		t.Error("a killed helper was kept")
	}
}

func TestConcurrentTransforms(t *testing.T) {
	p := newPool(t)
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			want := fmt.Sprintf("let x = %d;\n", i)
			for range 5 {
				res, err := p.Transform(t.Context(), "a.ts", fmt.Sprintf("let x: number = %d", i))
				if err != nil || res.Code != want {
					t.Errorf("got %q, %v", res.Code, err)
				}
			}
		})
	}
	wg.Wait()
	if n := len(p.idle); n > maxIdle {
		t.Errorf("%d helpers are idle", n)
	}
}

func TestBadCommandAndClosed(t *testing.T) {
	if _, err := NewPool([]string{"/nonexistent/helper"}).Transform(t.Context(), "a.ts", ""); err == nil {
		t.Error("a helper that does not exist was started")
	}
	if _, err := NewPool([]string{"/bin/true"}).Transform(t.Context(), "a.ts", ""); !errors.Is(err, ErrGaveUp) {
		t.Errorf("a helper that ends: %v", err)
	}
	p := newPool(t)
	p.Close()
	if _, err := p.Transform(t.Context(), "a.ts", ""); !errors.Is(err, ErrClosed) {
		t.Errorf("closed: %v", err)
	}
}

func BenchmarkTransform(b *testing.B) {
	source := "enum E { A, B }\nexport const x: Record<string, E> = { a: E.A };\n"
	b.Run("kept helper", func(b *testing.B) {
		p := newPool(b)
		for b.Loop() {
			if _, err := p.Transform(b.Context(), "a.ts", source); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("new helper", func(b *testing.B) {
		for b.Loop() {
			p := newPool(b)
			if _, err := p.Transform(b.Context(), "a.ts", source); err != nil {
				b.Fatal(err)
			}
			p.Close()
		}
	})
	b.Run("in process", func(b *testing.B) {
		for b.Loop() {
			transform("a.ts", source)
		}
	})
}
