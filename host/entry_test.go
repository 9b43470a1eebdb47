package host

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/hashicorp/go-hclog"
)

// door admits whoever says so in a header; standing is not its business.
type door struct{}

func (door) Admit(r *http.Request) (Principal, error) {
	switch r.Header.Get("X-Test") {
	case "acme":
		return Principal{Org: "acme"}, nil
	case "nobody":
		return Principal{}, nil
	case "down":
		return Principal{}, errors.New("the directory at 10.0.0.7 is down")
	}
	return Principal{}, &HTTPError{Status: 401, Code: "unauthorized", Message: "no credential"}
}

func (door) Standing(context.Context, Principal, Act) error { return nil }

// foldingRouter matches like routers that ignore case and doubled slashes.
type foldingRouter struct{ h http.Handler }

func (f *foldingRouter) Handle(_ string, h http.Handler) { f.h = h }

func bare(p Platform) *Host { return &Host{o: Options{Platform: p}, log: hclog.NewNullLogger()} }

func TestGuard(t *testing.T) {
	router := &foldingRouter{}
	h := bare(Platform{Router: router, Admission: door{}, Billing: Free})
	err := h.Mount(t.Context(), Entry{Name: "e", Price: Metered, Mount: func(_ context.Context, m *Mounting) error {
		m.Prefixes("/v1/exec", "/exec/")
		m.Handle("POST /v1/exec", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			p, ok := PrincipalFrom(r.Context())
			if !ok || p.Org != "acme" {
				t.Errorf("reached with principal %+v, %v", p, ok)
			}
			w.WriteHeader(200)
		}), func(w http.ResponseWriter, _ *http.Request, e *HTTPError) {
			w.Header().Set("Code", e.Code)
			w.WriteHeader(e.Status)
			w.Write([]byte(e.Message))
		})
		return nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		path, who string
		status    int
	}{
		{"/v1/exec", "acme", 200},
		{"/v1/exec/upload", "acme", 200},
		{"/V1/EXEC", "acme", 200}, // the same door, whatever the router's idea of case
		{"/v1//exec", "acme", 200},
		{"/exec", "acme", 200},
		{"/V1/EXEC", "", 401},
		{"/v1/exec", "", 401},
		{"/v1/exec", "nobody", 403},
		{"/v1/exec", "down", 503},
		{"/v1/execute", "acme", 403}, // a stale mount elsewhere
		{"/v1/exec/../admin", "acme", 403},
		{"/admin", "acme", 403},
		{"/", "acme", 403},
	} {
		r := httptest.NewRequest(http.MethodPost, "/", nil)
		r.URL.Path = c.path
		r.Header.Set("X-Test", c.who)
		w := httptest.NewRecorder()
		router.h.ServeHTTP(w, r)
		if w.Code != c.status {
			t.Errorf("%s as %q: %d, want %d", c.path, c.who, w.Code, c.status)
		}
		if w.Code == 503 && w.Body.String() != "access cannot be checked now" {
			t.Errorf("a refusal tells internals: %s", w.Body)
		}
	}
}

func TestMountRefusals(t *testing.T) {
	fine := func(context.Context, *Mounting) error { return nil }
	mux := http.NewServeMux()
	for name, c := range map[string]struct {
		p Platform
		e Entry
	}{
		"no name":      {Platform{Router: mux, Admission: door{}, Billing: Free}, Entry{Price: NoCharge, Mount: fine}},
		"no mount":     {Platform{Router: mux, Admission: door{}, Billing: Free}, Entry{Name: "e", Price: NoCharge}},
		"no price":     {Platform{Router: mux, Admission: door{}, Billing: Free}, Entry{Name: "e", Mount: fine}},
		"no router":    {Platform{Admission: door{}, Billing: Free}, Entry{Name: "e", Price: NoCharge, Mount: fine}},
		"no admission": {Platform{Router: mux, Billing: Free}, Entry{Name: "e", Price: NoCharge, Mount: fine}},
		"no billing":   {Platform{Router: mux, Admission: door{}}, Entry{Name: "e", Price: Metered, Mount: fine}},
	} {
		if err := bare(c.p).Mount(t.Context(), c.e); err == nil {
			t.Errorf("%s: mounted", name)
		}
	}
	if err := bare(Platform{Router: mux, Admission: door{}}).Mount(t.Context(), Entry{Name: "e", Price: NoCharge, Mount: fine}); err != nil {
		t.Errorf("an entry without charge needs no billing: %v", err)
	}
}

func TestMountClosesInReverse(t *testing.T) {
	h := bare(Platform{Router: http.NewServeMux(), Admission: door{}})
	var order []int
	failing := errors.New("no")
	for i, err := range []error{nil, failing} {
		got := h.Mount(t.Context(), Entry{Name: "e", Price: NoCharge, Mount: func(_ context.Context, m *Mounting) error {
			m.OnClose(func(context.Context) error { order = append(order, 10*i); return nil })
			m.OnClose(func(context.Context) error { order = append(order, 10*i+1); return nil })
			return err
		}})
		if !errors.Is(got, err) {
			t.Errorf("Mount = %v, want %v", got, err)
		}
	}
	if len(order) != 2 || order[0] != 11 || order[1] != 10 {
		t.Errorf("a failed mount closed %v, want [11 10]", order)
	}
}

// readyDoor can say whether it admits anybody.
type readyDoor struct {
	door
	err error
}

func (d readyDoor) Ready(context.Context) error { return d.err }

func TestAdmissionReady(t *testing.T) {
	shut := errors.New("no key is configured")
	for admission, want := range map[Admission]error{door{}: nil, readyDoor{}: nil, readyDoor{err: shut}: shut} {
		h := bare(Platform{Router: http.NewServeMux(), Admission: admission})
		err := h.Mount(t.Context(), Entry{Name: "e", Price: NoCharge, Mount: func(ctx context.Context, m *Mounting) error {
			if got := m.AdmissionReady(ctx); got != want {
				t.Errorf("%T: AdmissionReady = %v, want %v", admission, got, want)
			}
			return nil
		}})
		if err != nil {
			t.Error(err)
		}
	}
}
