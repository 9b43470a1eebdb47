package telemetry

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	oteltrace "go.opentelemetry.io/otel/trace"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// all measures everything once.
func all(t *Telemetry) {
	t.RequestBegan()
	t.RequestEnded("/exec", "POST", 200, time.Millisecond)
	t.RateLimited("runs")
	t.RunEnded(Run{Language: "py", Outcome: RunCompleted, Stop: "exit", Wall: time.Second, CPU: time.Second, BytesIn: 1, BytesOut: 2, PeakMemory: 3 << 20})
	t.RunEnded(Run{Outcome: RunRefused})
	t.Reserved()
	t.Settled(ChargeDebited)
	t.Settled(ChargeRefused)
	t.SessionCreated("exec")
	t.Swept(3, 2, 1)
	_, s := t.Phase(context.Background(), PhaseQueue)
	s.End(nil)
	t.PluginCall("b", "Run", "OK", time.Millisecond, true)
	t.Swapped(Event{Plugin: "b", Outcome: "switched"}, time.Second)
	t.PolicyAsked("p", "deny", PolicyAllow, time.Microsecond)
	t.Reconfigured(nil)
	t.Reconfigured(errors.New("no"))
	t.SpansSent(2, nil)
	t.SpansSent(1, errors.New("no"))
}

// full has sources too.
func full(o Options) *Telemetry {
	t := New(o)
	t.AddQueue(func() Queue {
		return Queue{Running: 1, Waiting: 2, Places: 3, Tenants: 1, Memory: 4, MemoryBudget: 5, Principals: 6, Programs: 7, Suspended: 8}
	})
	t.AddPlugins(func() []Plugin {
		return []Plugin{
			{Name: "b", Kind: "backend", Version: "1.0.0", State: "ready", Restarts: 1, LogDropped: 2, InFlight: 3, Generations: 1},
			{Name: "p", Kind: "policy", Version: "1.0.0", State: "ready", Module: &Module{Calls: 9, Failures: map[string]uint64{"trap": 1}, Instances: 2}},
		}
	})
	all(t)
	return t
}

func scrape(t *testing.T, tel *Telemetry) string {
	t.Helper()
	w := httptest.NewRecorder()
	tel.Handler().ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	if w.Code != http.StatusOK {
		t.Fatalf("%d: %s", w.Code, w.Body)
	}
	return w.Body.String()
}

// What the catalogue says is what is served.
func TestCatalogue(t *testing.T) {
	tel := full(Options{Version: "v1"})
	families, err := tel.Gatherer().Gather()
	if err != nil {
		t.Fatal(err)
	}
	served := make(map[string]Metric)
	for _, f := range families {
		m := Metric{Name: f.GetName(), Type: strings.ToLower(f.GetType().String()), Help: f.GetHelp()}
		for _, l := range f.GetMetric()[0].GetLabel() {
			m.Labels = append(m.Labels, l.GetName())
		}
		served[m.Name] = m
	}
	for _, want := range tel.Catalogue() {
		got, ok := served[want.Name]
		slices.Sort(want.Labels)
		if !ok || got.Type != want.Type || got.Help != want.Help || !slices.Equal(got.Labels, want.Labels) {
			t.Errorf("served %+v, the catalogue says %+v", got, want)
		}
		delete(served, want.Name)
	}
	for name := range served {
		t.Errorf("%s is served and not in the catalogue", name)
	}
}

// docs/observability.md has the catalogue as a table.
func TestDocument(t *testing.T) {
	const file, begin, end = "../../docs/observability.md", "<!-- metrics -->\n", "<!-- end -->"
	var b strings.Builder
	b.WriteString("| metric | type | labels | what |\n|---|---|---|---|\n")
	for _, m := range New(Options{}).Catalogue() {
		var labels []string
		for _, l := range m.Labels {
			labels = append(labels, "`"+l+"`")
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", m.Name, m.Type, strings.Join(labels, ", "), m.Help)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	head, rest, ok := strings.Cut(string(text), begin)
	table, tail, ok2 := strings.Cut(rest, end)
	if !ok || !ok2 {
		t.Fatalf("%s has no place for the metrics", file)
	}
	if table == b.String() {
		return
	}
	if os.Getenv("UPDATE_GOLDEN") != "" {
		if err := os.WriteFile(file, []byte(head+begin+b.String()+end+tail), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	t.Errorf("%s does not list the metrics as they are; UPDATE_GOLDEN=1 writes\n%s", file, b.String())
}

// Whatever callers and plugins make up, the number of series stays bounded.
func TestLabelsAreBounded(t *testing.T) {
	tel := New(Options{})
	for i := range 10_000 {
		s := fmt.Sprint("x", i)
		tel.RequestBegan()
		tel.RequestEnded(s, s, i, 0)
		tel.RunEnded(Run{Language: s, Outcome: RunCompleted, Stop: s})
	}
	if n := strings.Count(scrape(t, tel), "\n"); n > 10_000 {
		t.Errorf("%d lines", n)
	}
	for name, got := range map[string]string{
		"method": methodName("BREW"), "status": statusName(99999), "stop": stopName("because"),
	} {
		if got != other {
			t.Errorf("a made up %s became %q", name, got)
		}
	}
}

func TestNothing(t *testing.T) {
	var tel *Telemetry
	all(tel)
	tel.Emit(Event{})
	tel.AddQueue(nil)()
	tel.AddPlugins(nil)()
	ctx, s := tel.Request(httptest.NewRequest(http.MethodGet, "/", nil))
	s.Text("a", "b")
	s.End(nil)
	tel.Current(ctx).Text("n", "1")
	if tel.Events(3) != nil {
		t.Error("there are events")
	}
	if n := testing.AllocsPerRun(100, func() {
		_, s := tel.Phase(ctx, PhaseRun)
		s.End(nil)
	}); n != 0 {
		t.Errorf("a phase that nobody measures allocates %v times", n)
	}
}

// Measuring costs a hot path no garbage.
func TestAllocations(t *testing.T) {
	tel := full(Options{})
	ctx := t.Context()
	if n := testing.AllocsPerRun(100, func() {
		tel.RequestBegan()
		tel.RequestEnded("/exec", "POST", 200, time.Millisecond)
		for _, p := range []Phase{PhaseAdmission, PhasePolicy, PhaseReserve, PhaseQueue, PhaseSession, PhaseRun} {
			_, s := tel.Phase(ctx, p)
			s.End(nil)
		}
		tel.RunEnded(Run{Language: "py", Outcome: RunCompleted, Stop: "exit"})
		tel.PluginCall("b", "Run", "OK", time.Millisecond, false)
	}); n > 2 {
		t.Errorf("measuring one run allocates %v times, want at most 2", n)
	}
}

func TestRemovedSourcesAreNotAsked(t *testing.T) {
	tel := New(Options{})
	remove := tel.AddQueue(func() Queue { return Queue{Running: 7} })
	if s := scrape(t, tel); !strings.Contains(s, "caisson_queue_running 7") {
		t.Error("the queue was not asked")
	}
	remove()
	if s := scrape(t, tel); !strings.Contains(s, "caisson_queue_running 0") {
		t.Error("a removed queue was asked")
	}
}

func TestEvents(t *testing.T) {
	var heard []string
	tel := New(Options{OnEvent: func(e Event) { heard = append(heard, e.To) }})
	for i := range maxEvents + 5 {
		tel.Emit(Event{Kind: EventState, To: fmt.Sprint(i)})
	}
	got := tel.Events(2 * maxEvents)
	if len(got) != maxEvents || got[0].To != "5" || got[maxEvents-1].To != fmt.Sprint(maxEvents+4) || got[0].At.IsZero() {
		t.Errorf("%d events, from %v", len(got), got[0])
	}
	if len(heard) != maxEvents+5 {
		t.Errorf("heard of %d", len(heard))
	}
	if got := tel.Events(1); len(got) != 1 || got[0].To != fmt.Sprint(maxEvents+4) {
		t.Errorf("the newest is %v", got)
	}
}

func spansOf(t *testing.T, o Options, change func(*http.Request)) tracetest.SpanStubs {
	t.Helper()
	mem := tracetest.NewInMemoryExporter()
	provider := trace.NewTracerProvider(trace.WithSyncer(mem))
	o.Tracing = provider
	tel := New(o)
	r := httptest.NewRequest(http.MethodPost, "/v1/exec?key=hunter2", nil)
	r.Pattern = "POST /v1/exec"
	change(r)
	ctx, span := tel.Request(r)
	_, phase := tel.Phase(ctx, PhasePolicy)
	phase.End(errors.New("code of somebody: hunter2"))
	tel.Current(ctx).Text("caisson.request_id", "r1")
	span.End(nil)
	out := mem.GetSpans()
	if err := provider.Shutdown(t.Context()); err != nil {
		t.Fatal(err)
	}
	return out
}

const (
	remoteTrace = "0af7651916cd43dd8448eb211c80319c"
	traceparent = "00-" + remoteTrace + "-b7ad6b7169203331-01"
)

func TestSpans(t *testing.T) {
	for name, c := range map[string]struct {
		o      Options
		change func(*http.Request)
		check  func(root tracetest.SpanStub) bool
	}{
		"a trace of its own": {
			change: func(*http.Request) {},
			check:  func(s tracetest.SpanStub) bool { return !s.Parent.IsValid() && len(s.Links) == 0 },
		},
		"linked to the caller's": {
			change: func(r *http.Request) { r.Header.Set("traceparent", traceparent) },
			check: func(s tracetest.SpanStub) bool {
				return !s.Parent.IsValid() && len(s.Links) == 1 && s.Links[0].SpanContext.TraceID().String() == remoteTrace
			},
		},
		"part of a trusted caller's": {
			o:      Options{TrustParent: true},
			change: func(r *http.Request) { r.Header.Set("traceparent", traceparent) },
			check:  func(s tracetest.SpanStub) bool { return s.SpanContext.TraceID().String() == remoteTrace },
		},
		"below the platform's": {
			change: func(r *http.Request) {
				id, _ := oteltrace.TraceIDFromHex(remoteTrace)
				span, _ := oteltrace.SpanIDFromHex("b7ad6b7169203331")
				sc := oteltrace.NewSpanContext(oteltrace.SpanContextConfig{TraceID: id, SpanID: span, TraceFlags: oteltrace.FlagsSampled})
				*r = *r.WithContext(oteltrace.ContextWithSpanContext(r.Context(), sc))
			},
			check: func(s tracetest.SpanStub) bool { return s.SpanContext.TraceID().String() == remoteTrace },
		},
		"garbage is passed over": {
			change: func(r *http.Request) { r.Header.Set("traceparent", "00-xyz") },
			check:  func(s tracetest.SpanStub) bool { return !s.Parent.IsValid() && len(s.Links) == 0 },
		},
	} {
		t.Run(name, func(t *testing.T) {
			spans := spansOf(t, c.o, c.change)
			if len(spans) != 2 || spans[0].Name != "caisson.policy" || spans[1].Name != "POST /v1/exec" {
				t.Fatalf("spans = %+v", spans)
			}
			if spans[0].Parent.SpanID() != spans[1].SpanContext.SpanID() {
				t.Error("the phase is not below the request")
			}
			if !c.check(spans[1]) {
				t.Errorf("the request's span is %+v", spans[1])
			}
			if s := fmt.Sprintf("%+v", spans); strings.Contains(s, "hunter2") {
				t.Error("a span tells what a caller wrote")
			}
		})
	}
}

func BenchmarkPhase(b *testing.B) {
	for name, tel := range map[string]*Telemetry{"off": nil, "metrics": New(Options{})} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				_, s := tel.Phase(b.Context(), PhaseRun)
				s.End(nil)
			}
		})
	}
}
