package bindingtest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/caisson-run/caisson/host/session/binding"
)

// testArguments shows each rule something that breaks it, before anything is asked.
func testArguments(t *testing.T, s *suite) {
	asked := 0
	st := store(t, &Faulty{Engine: s.Replicas[0], Before: func(context.Context, string) error { asked++; return nil }}, binding.Options{})
	field := func(what string, err error, name string) {
		t.Helper()
		var f *binding.FieldError
		if !errors.As(err, &f) || f.Field != name {
			t.Errorf("%s = %v, want a FieldError of %q", what, err, name)
		}
	}
	for _, bad := range []string{"", " ", "\t", "a{b", "a}b", "a\x00b", "a\nb", "a\x7fb", "\xff", "a\u0085b", strings.Repeat("x", 300)} {
		for name, k := range map[string]binding.Key{"tenant": {Tenant: bad, Session: "s"}, "session": {Tenant: "t", Session: bad}} {
			_, _, err := st.Get(t.Context(), k)
			field("Get", err, name)
			_, err = st.Create(t.Context(), bound(k, "x"))
			field("Create", err, name)
			_, err = st.DeleteIfMatch(t.Context(), k, "p", "x")
			field("DeleteIfMatch", err, name)
			_, err = st.ReplaceToken(t.Context(), k, "p", "x", "t")
			field("ReplaceToken", err, name)
			field("WithLifecycleLock", st.WithLifecycleLock(t.Context(), k, nil), name)
			_, _, err = st.BeginTurn(t.Context(), k, binding.Keep)
			field("BeginTurn", err, name)
			_, err = st.LockRewind(t.Context(), k)
			field("LockRewind", err, name)
			field("AddWork", st.AddWork(t.Context(), k, binding.Work{ID: "a", Kind: "b"}, time.Second, 1), name)
			_, err = st.RenewWork(t.Context(), k, "a", time.Second)
			field("RenewWork", err, name)
			field("RemoveWork", st.RemoveWork(t.Context(), k, "a"), name)
			_, err = st.Work(t.Context(), k)
			field("Work", err, name)
			_, err = st.Bindings(t.Context(), []binding.Key{key, k})
			field("Bindings", err, name)
		}
		_, err := st.MarkStale(t.Context(), bad, "main")
		field("MarkStale", err, "tenant")
		_, err = st.MarkStale(t.Context(), "acme", bad)
		field("MarkStale", err, "config")
	}
	for name, change := range map[string]func(*binding.Binding){
		"provider": func(b *binding.Binding) { b.Provider = "" },
		"sandbox":  func(b *binding.Binding) { b.Sandbox = strings.Repeat("x", binding.MaxSandbox+1) },
		"config":   func(b *binding.Binding) { b.Config = "a\nb" },
		"template": func(b *binding.Binding) { b.Template = "\xff" },
		"token":    func(b *binding.Binding) { b.Token = strings.Repeat("x", binding.MaxToken+1) },
		"created":  func(b *binding.Binding) { b.Created = time.Time{} },
		"stale":    func(b *binding.Binding) { b.Stale = time.UnixMilli(-1) },
	} {
		b := bound(key, "x")
		change(&b)
		_, err := st.Create(t.Context(), b)
		field("Create", err, name)
	}
	_, err := st.ReplaceToken(t.Context(), key, "p", "x", strings.Repeat("x", binding.MaxToken+1))
	field("ReplaceToken", err, "token")
	for name, w := range map[string]binding.Work{
		"id": {ID: "a b", Kind: "k"}, "kind": {ID: "a", Kind: ""}, "data": {ID: "a", Kind: "k", Data: strings.Repeat("x", binding.MaxWorkData+1)},
	} {
		field("AddWork", st.AddWork(t.Context(), key, w, time.Second, 1), name)
	}
	field("AddWork", st.AddWork(t.Context(), key, binding.Work{ID: "a", Kind: "k"}, 0, 1), "lease")
	field("AddWork", st.AddWork(t.Context(), key, binding.Work{ID: "a", Kind: "k"}, time.Second, 0), "limit")
	_, err = st.RenewWork(t.Context(), key, "a", 25*time.Hour)
	field("RenewWork", err, "lease")
	if asked != 0 {
		t.Errorf("the engine was asked %d times", asked)
	}

	b := bound(key, "x")
	b.Token = "hush-hush"
	text := fmt.Sprintf("%v %+v %#v %s %q %d %v", b, b, b, &b, b, b, struct{ B binding.Binding }{b})
	if strings.Contains(text, "hush") {
		t.Errorf("a formatted binding shows its token: %s", text)
	}
	if _, err := json.Marshal(b); err == nil {
		t.Error("a binding has a JSON form")
	}
}

// testForeign: records of other versions and damaged ones are typed errors, and are
// never changed or deleted.
func testForeign(t *testing.T, s *suite) {
	if s.Write == nil {
		t.Skip("nobody else can write here")
	}
	for _, c := range []struct {
		name, field, value string
		want               error
	}{
		{"newer version", "v", "2", binding.ErrSchema},
		{"no version", "v", "", binding.ErrSchema},
		{"another session's", "session", "s2", binding.ErrCorrupt},
		{"another tenant's", "tenant", "evil", binding.ErrCorrupt},
		{"damaged time", "created", "yesterday", binding.ErrCorrupt},
		{"no sandbox", "sandbox", "", binding.ErrCorrupt},
		{"unknown field", "surprise", "1", binding.ErrCorrupt},
	} {
		t.Run(c.name, func(t *testing.T) {
			k := binding.Key{Tenant: "acme", Session: "f " + c.name}
			s.create(t, bound(k, "one"), true)
			s.Write(k, c.field, c.value)
			_, ok, err := s.b.Get(t.Context(), k)
			wantErr(t, "Get", err, c.want)
			if ok {
				t.Error("it is bound")
			}
			good := binding.Key{Tenant: "acme", Session: "good " + c.name}
			s.create(t, bound(good, "g"), true)
			got, err := s.b.Bindings(t.Context(), []binding.Key{k, good})
			wantErr(t, "Bindings", err, c.want)
			if len(got) != 1 || got[good].Sandbox != "g" {
				t.Errorf("Bindings = %v, want the good one", got)
			}
			var found int
			var listed error
			for b, err := range s.b.All(t.Context(), binding.Filter{Tenant: "acme"}) {
				if err == nil && b.Key == good {
					found++
				}
				listed = errors.Join(listed, err)
			}
			wantErr(t, "All", listed, c.want)
			if found != 1 {
				t.Error("All does not list the good one")
			}
			if c.want == binding.ErrSchema {
				_, err = s.b.DeleteIfMatch(t.Context(), k, "p", "one")
				wantErr(t, "DeleteIfMatch", err, c.want)
				_, err = s.b.ReplaceToken(t.Context(), k, "p", "one", "t")
				wantErr(t, "ReplaceToken", err, c.want)
				_, err = s.b.Create(t.Context(), bound(k, "one"))
				wantErr(t, "Create", err, c.want)
				n, err := s.b.MarkStale(t.Context(), "acme", "main")
				wantErr(t, "MarkStale", err, c.want)
				if n != 1 {
					t.Errorf("MarkStale marked %d, want the good one", n)
				}
				s.Write(k, c.field, "1")
				s.expect(t, bound(k, "one")) // nothing was touched
			}
			s.Write(k, "", "") // gone, for the next
			_, _ = s.a.DeleteIfMatch(t.Context(), good, "p", "g")
		})
	}
}
