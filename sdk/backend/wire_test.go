package backend

import (
	"context"
	"errors"
	"fmt"
	"net"
	"reflect"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"
	"google.golang.org/protobuf/proto"

	pb "github.com/caisson-run/caisson/sdk/backend/backendpb"
)

// TestFull: a full sandbox is told from a rate limit and from a backend without room.
func TestFull(t *testing.T) {
	full := &Error{Kind: KindCapacity, Subject: SubjectFile}
	if !Full(full) || !Full(fmt.Errorf("store: %w", full)) {
		t.Error("a sandbox that is full is not")
	}
	for _, err := range []error{
		nil, errors.New("full"), &Error{Kind: KindCapacity, Subject: SubjectSandbox}, &Error{Kind: KindCapacity}, &Error{Kind: KindCapacity, Subject: SubjectRun},
		&Error{Kind: KindCapacity, Subject: SubjectFile, RetryAfter: time.Second}, &Error{Kind: KindInvalidRequest, Subject: SubjectFile},
	} {
		if Full(err) {
			t.Errorf("%v is a full sandbox", err)
		}
	}
}

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// dial connects a client to a server over memory; stop cuts the connection.
func dial(t *testing.T, srv *grpc.Server) (c *client, stop func()) {
	t.Helper()
	lis := bufconn.Listen(1 << 20)
	served := make(chan struct{})
	go func() {
		defer close(served)
		_ = srv.Serve(lis)
	}()
	conn, err := grpc.NewClient("passthrough:///bufconn",
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return lis.DialContext(ctx) }))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = conn.Close()
		srv.Stop()
		<-served
	})
	return NewClient(conn).(*client), srv.Stop
}

// serveBackend connects a client to an implementation.
func serveBackend(t *testing.T, b Backend) *client {
	t.Helper()
	srv, err := NewServer(t.Context(), b, nil)
	if err != nil {
		t.Fatal(err)
	}
	c, _ := dial(t, srv)
	return c
}

// servePeer connects a client to a peer that speaks the protocol by itself.
func servePeer(t *testing.T, peer pb.BackendServer) (c *client, stop func()) {
	t.Helper()
	srv := grpc.NewServer()
	pb.RegisterBackendServer(srv, peer)
	return dial(t, srv)
}

func TestErrorsCross(t *testing.T) {
	full := &Error{
		Kind: KindCapacity, Op: "Create", Provider: "e2b", Subject: SubjectSandbox, Plane: PlaneControl,
		Message: "too many: ü", Status: 429, RetryAfter: 1500*time.Millisecond + 1, Cause: errors.New("upstream says no"),
	}
	for _, kind := range Kinds() {
		e := *full
		e.Kind = kind
		got := fromStatus(t.Context(), "X", toStatus(t.Context(), "X", &e))
		var back *Error
		if !errors.As(got, &back) {
			t.Fatalf("%s came back as %T", kind, got)
		}
		if back.Kind != kind || back.Op != "Create" || back.Provider != "e2b" || back.Subject != SubjectSandbox ||
			back.Plane != PlaneControl || back.Message != full.Message || back.Status != 429 || back.RetryAfter != full.RetryAfter ||
			back.Cause.Error() != "upstream says no" || back.Error() != e.Error() {
			t.Errorf("%s came back as %+v", kind, back)
		}
		if ProvesGone(got) != (kind == KindNotFound || kind == KindTerminal) {
			t.Errorf("%s: proof is %v", kind, ProvesGone(got))
		}
	}
}

func TestErrorsOfOtherTypes(t *testing.T) {
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	expired, cancel := context.WithTimeout(t.Context(), -1)
	defer cancel()
	for _, c := range []struct {
		name       string
		there, own context.Context
		err        error
		kind       Kind
		is         error
	}{
		{name: "plain", err: errors.New("x"), kind: KindInternal},
		{name: "wrapped", err: fmt.Errorf("more: %w", Errorf(KindConflict, "Op", "x")), kind: KindConflict},
		{name: "the call's own end", there: ended, own: ended, err: context.Canceled, is: context.Canceled},
		{name: "the call's own deadline", there: expired, own: expired, err: context.DeadlineExceeded, is: context.DeadlineExceeded},
		{name: "another context's end", err: context.Canceled, kind: KindUnavailable},
		{name: "another context's deadline", err: context.DeadlineExceeded, kind: KindTimeout},
		{name: "not UTF-8", err: errors.New("bad \xff name"), kind: KindInternal},
		{name: "long", err: errors.New(strings.Repeat("ü", 1<<20)), kind: KindInternal},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.there == nil {
				c.there, c.own = t.Context(), t.Context()
			}
			st := toStatus(c.there, "Op", c.err)
			if n := len(st.Error()); n > 3*maxErrorText {
				t.Errorf("the status has %d bytes", n)
			}
			got := fromStatus(c.own, "Op", st)
			if c.is != nil {
				if !errors.Is(got, c.is) {
					t.Errorf("got %v, want %v", got, c.is)
				}
				return
			}
			var e *Error
			if !errors.As(got, &e) || e.Kind != c.kind || errors.Is(got, context.Canceled) {
				t.Errorf("got %v, want kind %s", got, c.kind)
			}
			if c.name == "wrapped" && !strings.HasPrefix(e.Message, "more: ") {
				t.Errorf("message %q lost what was added", e.Message)
			}
		})
	}
}

// A status without detail is the transport's: it proves nothing.
func TestTransportErrors(t *testing.T) {
	for code, want := range map[codes.Code]Kind{
		codes.Unavailable:       KindUnavailable,
		codes.Canceled:          KindUnavailable,
		codes.NotFound:          KindUnavailable,
		codes.Aborted:           KindUnavailable,
		codes.DeadlineExceeded:  KindTimeout,
		codes.Unimplemented:     KindUnsupported,
		codes.ResourceExhausted: KindCapacity,
		codes.Internal:          KindInternal,
		codes.Unknown:           KindInternal,
	} {
		err := fromStatus(t.Context(), "Get", status.Error(code, "x"))
		if KindOf(err) != want || ProvesGone(err) {
			t.Errorf("%v became %v (%v), want %v", code, KindOf(err), err, want)
		}
		var e *Error
		if !errors.As(err, &e) || e.Plane != "" || e.Subject != "" {
			t.Errorf("%v became %+v", code, err)
		}
	}
}

// A newer peer may send numbers that this side does not know.
func TestUnknownNumbers(t *testing.T) {
	if got := fromPBSandbox(&pb.Sandbox{State: 99}).State; got != StateUnknown {
		t.Errorf("state 99 is read as %q", got)
	}
	if got := fromPBSandbox(&pb.Sandbox{}).State; got != StateUnknown {
		t.Errorf("no state is read as %q", got)
	}
	if got := fromPBEntry(&pb.Entry{Type: 99}).Type; got != EntryOther {
		t.Errorf("entry type 99 is read as %q", got)
	}
	if got := fromPBTemplate(&pb.Template{Status: 99}).Status; got != TemplateBuilding {
		t.Errorf("template status 99 is read as %q", got)
	}
	e := fromPBError(&pb.Error{Kind: 99, Subject: 99, Plane: 99})
	if e.Kind != KindInternal || e.Subject != "" || e.Plane != "" {
		t.Errorf("an unknown error is read as %+v", e)
	}
	for name, r := range map[string]*pb.CreateRequest{
		"network": {Network: &pb.Network{Mode: 99}},
		"mode":    {Timeout: &pb.TimeoutPolicy{Mode: 99}},
		"action":  {Timeout: &pb.TimeoutPolicy{Action: 99}},
	} {
		if _, err := fromPBCreate(r); KindOf(err) != KindInvalidRequest {
			t.Errorf("an unknown %s is not refused: %v", name, err)
		}
	}
	for name, s := range map[string]CreateSpec{
		"network": {Network: Network{Mode: "x"}},
		"mode":    {Timeout: TimeoutPolicy{Mode: "x"}},
		"action":  {Timeout: TimeoutPolicy{Action: "x"}},
	} {
		if _, err := toPBCreate(s); KindOf(err) != KindInvalidRequest {
			t.Errorf("an unknown %s is sent: %v", name, err)
		}
	}
}

// fill sets every member of a value to something, so that a member that the
// wire forgets is noticed.
func fillValue(v reflect.Value, n *int64) {
	*n++
	switch v.Kind() {
	case reflect.Struct:
		if v.Type() == reflect.TypeFor[time.Time]() {
			v.Set(reflect.ValueOf(time.Unix(1_700_000_000+*n, 123_456_789).UTC()))
			return
		}
		for i := range v.NumField() {
			fillValue(v.Field(i), n)
		}
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fillValue(v.Elem(), n)
	case reflect.Slice:
		if v.Type().Elem().Kind() == reflect.Uint8 {
			v.SetBytes([]byte(fmt.Sprint("bytes", *n)))
			return
		}
		v.Set(reflect.MakeSlice(v.Type(), 2, 2))
		for i := range 2 {
			fillValue(v.Index(i), n)
		}
	case reflect.Map:
		v.Set(reflect.ValueOf(map[string]string{"a": fmt.Sprint(*n), "b": ""}))
	case reflect.String:
		for word, words := range map[reflect.Type]string{
			reflect.TypeFor[State]():         string(StatePaused),
			reflect.TypeFor[NetworkMode]():   string(NetworkOpen),
			reflect.TypeFor[TimeoutMode]():   string(TimeoutNever),
			reflect.TypeFor[TimeoutAction](): string(TimeoutPause),
			reflect.TypeFor[EntryType]():     string(EntryDir),
			reflect.TypeFor[StopReason]():    string(StopMemory),
		} {
			if v.Type() == word {
				v.SetString(words)
				return
			}
		}
		v.SetString(fmt.Sprint("text", *n))
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Float64:
		v.SetFloat(float64(*n) + 0.5)
	case reflect.Uint32, reflect.Uint64:
		v.SetUint(uint64(*n))
	default:
		v.SetInt(*n)
	}
}

func filled[T any]() T {
	var v T
	n := int64(0)
	fillValue(reflect.ValueOf(&v).Elem(), &n)
	return v
}

// recode sends a message through its bytes.
func recode[M proto.Message](t *testing.T, m M) M {
	t.Helper()
	b, err := proto.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	out := m.ProtoReflect().New().Interface()
	if err := proto.Unmarshal(b, out); err != nil {
		t.Fatal(err)
	}
	return out.(M)
}

func same[T any](t *testing.T, want, got T) {
	t.Helper()
	if !reflect.DeepEqual(want, got) {
		t.Errorf("%T crossed as\n%+v, want\n%+v", want, got, want)
	}
}

func TestEveryMemberCrosses(t *testing.T) {
	same(t, filled[Info](), fromPBInfo(recode(t, toPBInfo(filled[Info]()))))
	same(t, filled[Sandbox](), fromPBSandbox(recode(t, toPBSandbox(filled[Sandbox]()))))
	same(t, filled[Entry](), fromPBEntry(recode(t, toPBEntry(filled[Entry]()))))
	same(t, filled[Usage](), fromPBUsage(recode(t, toPBUsage(filled[Usage]()))))
	same(t, filled[Snapshot](), fromPBSnapshot(recode(t, toPBSnapshot(filled[Snapshot]()))))

	p, err := toPBCreate(filled[CreateSpec]())
	if err != nil {
		t.Fatal(err)
	}
	create, err := fromPBCreate(recode(t, p))
	if err != nil {
		t.Fatal(err)
	}
	same(t, filled[CreateSpec](), create)

	run := filled[DetachedStart]()
	got := fromPBStart(recode(t, toPBStart(run.RunSpec, run.TTL)))
	run.Program.Source = nil // follows in chunks
	for i := range run.Inputs {
		run.Inputs[i].Inline, run.Inputs[i].Chunked = nil, false // one source only
	}
	same(t, run, got)

	res := filled[RunResult]()
	var back RunResult
	fromPBExit(recode(t, toPBExit(res)), &back)
	res.Changed, res.Deleted, res.MissingInputs, res.Usage = nil, nil, nil, Usage{} // frames of their own
	same(t, res, back)
}

func TestTimesAndDurationsAreLossless(t *testing.T) {
	for _, v := range []time.Time{{}, time.Unix(0, 0).UTC(), time.Unix(-1, 999_999_999).UTC(), time.Date(1, 1, 1, 0, 0, 0, 1, time.UTC), time.Unix(1<<40, 1).UTC()} {
		if got := fromPBTime(toPBTime(v)); !got.Equal(v) || got.IsZero() != v.IsZero() {
			t.Errorf("%v became %v", v, got)
		}
	}
	for _, v := range []time.Duration{0, 1, -1, 1<<63 - 1, -1 << 63, time.Hour + 1} {
		if got := toPBDuration(v).AsDuration(); got != v {
			t.Errorf("%v became %v", v, got)
		}
	}
}
