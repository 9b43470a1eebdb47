package envd_test

import (
	"encoding/base64"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"

	"github.com/caisson-run/caisson/plugins/internal/envd/envdpb/processpb"
	"github.com/caisson-run/caisson/plugins/internal/envd/envdpb/processpb/processpbconnect"
	"github.com/caisson-run/caisson/plugins/internal/envdfake"
	"github.com/caisson-run/caisson/sdk/backend"
)

// raw is a client with nothing but the protocol: what an exec costs at least.
type raw struct {
	process processpbconnect.ProcessClient
}

// rawTransport adds only what the gateway and the daemon cannot do without.
type rawTransport struct {
	next  http.RoundTripper
	host  string
	token string
}

func (t *rawTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Host = t.host
	r.Header.Set("X-Access-Token", t.token)
	r.Header.Set("Authorization", "Basic "+base64.StdEncoding.EncodeToString([]byte("root:")))
	return t.next.RoundTrip(r)
}

func newRaw(s *stand, ref backend.Ref) *raw {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	s.t.Cleanup(transport.CloseIdleConnections)
	client := &http.Client{Transport: &rawTransport{transport, "49983-" + ref.ID + ".sandbox.test", s.box(ref).where.AccessToken}}
	return &raw{processpbconnect.NewProcessClient(client, s.server.URL)}
}

// exec runs a command to its end, in a session of its own, so that its tree can be
// killed, and without input.
func (r *raw) exec(b *testing.B, argv ...string) {
	b.Helper()
	none, cwd := false, "/mnt/data"
	stream, err := r.process.Start(b.Context(), connect.NewRequest(&processpb.StartRequest{
		Process: &processpb.ProcessConfig{Cmd: "/usr/bin/setsid", Args: argv, Cwd: &cwd}, Stdin: &none,
	}))
	if err != nil {
		b.Fatal(err)
	}
	var out strings.Builder
	ended := false
	for stream.Receive() {
		e := stream.Msg().GetEvent()
		out.Write(e.GetData().GetStdout())
		ended = ended || e.GetEnd() != nil
	}
	if err := stream.Err(); err != nil || !ended || out.String() != "hello\n" {
		b.Fatalf("%q, ended %v, %v", out.String(), ended, err)
	}
	_ = stream.Close()
}

// start starts a program that is left alone.
func (r *raw) start(t testing.TB, argv ...string) int {
	t.Helper()
	none := false
	stream, err := r.process.Start(t.Context(), connect.NewRequest(&processpb.StartRequest{
		Process: &processpb.ProcessConfig{Cmd: argv[0], Args: argv[1:]}, Stdin: &none,
	}))
	if err != nil || !stream.Receive() {
		t.Fatal(err, stream.Err())
	}
	defer stream.Close()
	return int(stream.Msg().GetEvent().GetStart().GetPid())
}

// shell is the least that tells a command's end although a descendant may hold its
// output.
func shell(argv []string) []string {
	return append([]string{"/bin/sh", "-c", `("$@"); printf 'end %d' $? >&2`, "sh"}, argv...)
}

// BenchmarkExec compares a warm exec with the raw call that promises as much, and with
// the bare command, on the same fake, in turns: "x-raw" and "x-bare" are ratios of the
// medians.
func BenchmarkExec(b *testing.B) {
	s := newStand(b, options{style: envdfake.E2B})
	ref := s.sandbox()
	if err := s.MakeDir(b.Context(), ref, backend.DataDir); err != nil {
		b.Fatal(err)
	}
	r := newRaw(s, ref)
	for name, argv := range map[string][]string{"echo": {"/bin/echo", "hello"}, "python": {"python3", "-c", "print('hello')"}} {
		b.Run(name, func(b *testing.B) {
			var raw, bare, adapter []time.Duration
			timed := func(list *[]time.Duration, f func()) {
				began := time.Now()
				f()
				*list = append(*list, time.Since(began))
			}
			for b.Loop() {
				timed(&bare, func() { r.exec(b, argv...) })
				timed(&raw, func() { r.exec(b, shell(argv)...) })
				timed(&adapter, func() { adapted(b, s, ref, argv) })
			}
			b.ReportMetric(median(adapter)/median(raw), "x-raw")
			b.ReportMetric(median(adapter)/median(bare), "x-bare")
		})
	}
}

func adapted(b *testing.B, s *stand, ref backend.Ref, argv []string) {
	b.Helper()
	res, err := s.Exec(b.Context(), backend.ExecRequest{Ref: ref, Argv: argv})
	if err != nil || string(res.Stdout) != "hello\n" {
		b.Fatalf("%+v, %v", res, err)
	}
}

func median(d []time.Duration) float64 {
	slices.Sort(d)
	return float64(d[len(d)/2])
}

// BenchmarkRun is a whole run: program placed, files looked at before and after.
func BenchmarkRun(b *testing.B) {
	s := newStand(b, options{style: envdfake.E2B})
	ref := s.sandbox()
	for b.Loop() {
		res, err := s.Run(b.Context(), backend.RunSpec{
			Ref: ref, RunID: "bench", Program: backend.Program{File: "main.py", Source: []byte("print('hello')")},
			Steps: []backend.Step{{Argv: []string{"python3", "{dir}/main.py"}}},
		}, silent{})
		if err != nil || res.ExitCode != 0 || res.CollectFailed {
			b.Fatalf("%+v, %v", res, err)
		}
	}
}

// silent listens to nothing.
type silent struct{ backend.RunIO }

func (silent) Started() error               { return nil }
func (silent) Stdout([]byte) error          { return nil }
func (silent) Stderr([]byte) error          { return nil }
func (silent) Input(int) (io.Reader, error) { return nil, io.EOF }
