package host

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/caisson-run/caisson/host/session"
	"github.com/caisson-run/caisson/runtimes/wasm"
	"github.com/caisson-run/caisson/sdk/backend"
	"github.com/caisson-run/caisson/sdk/language"
)

// languages is the merged language table. It is immutable.
type languages struct {
	rows []languageRow
	// byName has every id, and every alias that is no id.
	byName map[string]int
}

type languageRow struct {
	language.Language
	plugin string
	module module
	calls  *calls
}

// add merges a table over what is there: a row with a known id replaces it.
func (l *languages) add(plugin string, m module, c *calls, t language.Table) {
	for _, lang := range t.Languages {
		row := languageRow{Language: lang, plugin: plugin, module: m, calls: c}
		if i := slices.IndexFunc(l.rows, func(r languageRow) bool { return r.ID == lang.ID }); i >= 0 {
			l.rows[i] = row
		} else {
			l.rows = append(l.rows, row)
		}
	}
	// Advertised ones first, otherwise in the order of the tables.
	slices.SortStableFunc(l.rows, func(a, b languageRow) int {
		return cmp.Compare(rank(a.Advertised), rank(b.Advertised))
	})
	l.byName = make(map[string]int)
	for i, r := range l.rows {
		l.byName[r.ID] = i
	}
	for i, r := range l.rows {
		for _, a := range r.Aliases {
			if _, taken := l.byName[a]; !taken {
				l.byName[a] = i
			}
		}
	}
}

func rank(advertised bool) int {
	if advertised {
		return 0
	}
	return 1
}

// Offer is one language as a target offers it.
type Offer struct {
	language.Language
	// Toolchain and Version are what would run it.
	Toolchain string `json:"toolchain,omitempty"`
	Version   string `json:"version,omitempty"`
	// Missing says why it cannot run and what would add it; empty when it can.
	Missing string `json:"missing,omitempty"`
}

// Offers lists every language of the tables, advertised ones first, with what t
// makes of each. It is empty once the host is closed.
func (h *Host) Offers(t session.Target) []Offer {
	ref, err := h.modules.Acquire()
	if err != nil {
		return nil
	}
	defer ref.Release()
	return ref.Value().languages.offers(t)
}

func (l *languages) offers(t session.Target) []Offer {
	out := make([]Offer, len(l.rows))
	for i, r := range l.rows {
		s := supportFor(r.Language, t.Languages)
		out[i] = Offer{Language: r.Language, Toolchain: s.Toolchain, Version: s.Version, Missing: s.Missing}
	}
	return out
}

// supportFor picks what runs lang: the table's best toolchain that works, else
// the best that is known and missing, else none.
func supportFor(lang language.Language, supported []backend.LanguageSupport) backend.LanguageSupport {
	best := backend.LanguageSupport{ID: lang.ID, Missing: "this backend has no toolchain for it"}
	known := false
	for _, toolchain := range lang.Toolchains {
		for _, s := range supported {
			if s.ID != lang.ID || s.Toolchain != toolchain {
				continue
			}
			if s.Missing == "" {
				return s
			}
			if !known {
				best, known = s, true
			}
		}
	}
	return best
}

// LanguageError: the language is unknown, or this target cannot run it.
type LanguageError struct {
	// Language is as the caller spelled it, cut to a sane length.
	Language string
	// Missing is set when the language is known: what would add it.
	Missing string
	// Offered are the ids that the target can run.
	Offered []string
}

func (e *LanguageError) Error() string {
	s := fmt.Sprintf("unsupported language %q", e.Language)
	if e.Missing != "" {
		s += ": " + e.Missing
	}
	return s + "; this sandbox offers: " + strings.Join(e.Offered, ", ")
}

// PlanError: a language table did not plan a run.
type PlanError struct {
	// Language and Toolchain are what was to be planned.
	Language, Toolchain string
	// Refused is what the table does not take of the caller's arguments, a phrase
	// that may be shown to the caller. It is empty when the caller is not at fault.
	Refused string
	// Again says that the same request may succeed later.
	Again bool
	// Err is the cause, for the operator.
	Err error

	plugin string
}

func (e *PlanError) Error() string {
	return fmt.Sprintf("language table %q: plan %s by %s: %v", e.plugin, e.Language, e.Toolchain, e.Err)
}

// Unwrap returns the cause.
func (e *PlanError) Unwrap() error { return e.Err }

// planError tells what a table makes of a request from what is wrong with the
// table.
func planError(plugin string, r language.PlanRequest, err error) *PlanError {
	e := &PlanError{Language: r.Language, Toolchain: r.Toolchain, Err: err, plugin: plugin}
	guest, refused := errors.AsType[*wasm.GuestError](err)
	switch {
	case refused && guest.Code != language.CodeUnknownLanguage && guest.Code != language.CodeUnknownToolchain:
		e.Refused = guest.Message // the table sees nothing but the request
	case errors.Is(err, wasm.ReasonBadInput):
		e.Refused = "longer than the language's table takes"
	case errors.Is(err, wasm.ReasonBusy), errors.Is(err, wasm.ReasonTimeout):
		e.Again = true
	}
	return e
}

const maxLanguageEcho = 32

// Plan says how to run a program in a language, by id or alias, on t. It
// returns a *LanguageError when t cannot, and a *PlanError when the table fails.
func (h *Host) Plan(ctx context.Context, t session.Target, lang string, args []string) (id, toolchain string, plan language.Plan, err error) {
	ref, err := h.modules.Acquire()
	if err != nil {
		return "", "", plan, &PlanError{Language: lang, Again: true, Err: err}
	}
	defer ref.Release()
	return ref.Value().languages.plan(ctx, t, lang, args)
}

func (l *languages) plan(ctx context.Context, t session.Target, lang string, args []string) (id, toolchain string, plan language.Plan, err error) {
	name := strings.ToLower(strings.TrimSpace(lang))
	i, known := l.byName[name]
	if !known {
		return "", "", plan, l.error(t, lang, "")
	}
	row := l.rows[i]
	support := supportFor(row.Language, t.Languages)
	if support.Missing != "" {
		return "", "", plan, l.error(t, row.ID, support.Missing)
	}
	req := language.PlanRequest{Language: row.ID, Toolchain: support.Toolchain, Args: args}
	reply, err := row.module.Call(ctx, wasm.OpPlan, req.AppendJSON(nil), nil)
	if err == nil {
		if plan, err = language.DecodePlan(reply); err == nil {
			err = plan.CheckArgs(args)
		}
		err = row.calls.read(err)
	}
	if err != nil {
		return "", "", language.Plan{}, planError(row.plugin, req, err)
	}
	return row.ID, support.Toolchain, plan, nil
}

func (l *languages) error(t session.Target, lang, missing string) error {
	e := &LanguageError{Language: lang, Missing: missing}
	if len(lang) > maxLanguageEcho {
		e.Language = strings.ToValidUTF8(lang[:maxLanguageEcho], "") + "…"
	}
	for _, o := range l.offers(t) {
		if o.Missing == "" {
			e.Offered = append(e.Offered, o.ID)
		}
	}
	return e
}
