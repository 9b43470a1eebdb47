package backend

import (
	"context"
	"errors"
	"io"
	"path"
	"slices"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	pb "github.com/caisson-run/caisson/sdk/backend/backendpb"
)

// frames is a stream that yields what was prepared.
type frames struct {
	grpc.BidiStreamingClient[pb.RunIn, pb.RunOut]
	left []*pb.RunOut
}

func (f *frames) Recv() (*pb.RunOut, error) {
	if len(f.left) == 0 {
		return nil, io.EOF
	}
	out := f.left[0]
	f.left = f.left[1:]
	return out, nil
}

func (f *frames) Send(*pb.RunIn) error { return nil }

// encode puts frames after each other, each with its length in two bytes.
func encode(out ...*pb.RunOut) []byte {
	var all []byte
	for _, f := range out {
		b, _ := proto.Marshal(f)
		all = append(all, byte(len(b)>>8), byte(len(b)))
		all = append(all, b...)
	}
	return all
}

// FuzzRunFrames: whatever a plugin sends, a run that is accepted keeps its
// contract.
func FuzzRunFrames(f *testing.F) {
	f.Add(encode(outStarted(), outStdout(5), outChanged(file("/mnt/data/f")), outExit(func(e *pb.RunExit) { e.StdoutBytes = 5 })))
	f.Add(encode(outExit(func(e *pb.RunExit) { e.Stop = pb.StopReason_STOP_REASON_CANCELED })))
	f.Add(encode(outStarted(), &pb.RunOut{Frame: &pb.RunOut_Call{Call: &pb.ControlCall{Id: "1", Name: "n", Input: []byte("{}"), Last: true}}}, outExit(nil)))
	f.Add(encode(&pb.RunOut{Frame: &pb.RunOut_Credit{Credit: &pb.Credit{InputBytes: 1 << 40}}}))
	f.Fuzz(func(t *testing.T, in []byte) {
		var list []*pb.RunOut
		for len(in) >= 2 {
			n := min(int(in[0])<<8|int(in[1]), len(in)-2)
			frame := &pb.RunOut{}
			if proto.Unmarshal(in[2:2+n], frame) != nil {
				return
			}
			list = append(list, frame)
			in = in[2+n:]
		}
		spec := testSpec()
		spec.Control = true
		l := &listener{call: func(context.Context, ControlCall) (ControlReply, error) { return ControlReply{}, errors.New("no") }}
		c := &client{grace: cancelGrace, overrun: overrun}
		r, err := c.openRun(t.Context(), "Run", func(context.Context, ...grpc.CallOption) (grpc.BidiStreamingClient[pb.RunIn, pb.RunOut], error) {
			return &frames{left: list}, nil
		}, &pb.RunIn{})
		if err != nil {
			t.Fatal(err)
		}
		r.spec, r.io = spec, l
		res, err := r.follow()
		if err == nil {
			err = r.check(res)
		}
		r.close()
		if err != nil {
			return
		}
		if bad := spec.CheckResult(res); bad != nil {
			t.Errorf("accepted: %v", bad)
		}
		if l.starts > 1 || l.starts == 0 && res.Stop != StopCanceled || int64(l.stdout.Len()) > spec.Limits.StdoutBytes {
			t.Errorf("accepted %d starts and %d bytes", l.starts, l.stdout.Len())
		}
	})
}

func FuzzCheckPath(f *testing.F) {
	for _, p := range []string{"/", "/mnt/data/x", "/mnt/data/../x", "//", "/a/./b", "/a/", "a", "", "/..a", "/a\x00", "/mnt/data/..."} {
		f.Add(p)
	}
	f.Fuzz(func(t *testing.T, p string) {
		if CheckPath(p) != nil {
			return
		}
		if p != path.Clean("/"+p) || slices.Contains(strings.Split(p, "/"), "..") || strings.ContainsRune(p, 0) {
			t.Errorf("%q passes", p)
		}
		if Within(DataDir, p) != (p == DataDir || strings.HasPrefix(p, DataDir+"/")) {
			t.Errorf("Within(%q) = %v", p, Within(DataDir, p))
		}
		if !Within("/", p) || !Within(p, p) {
			t.Errorf("%q is not within itself", p)
		}
	})
}

func TestExcluded(t *testing.T) {
	list := []string{"__pycache__", "*.pyc", "*"}
	for name, want := range map[string]bool{"__pycache__": true, "a.pyc": true, ".pyc": true, "pyc": false, "my__pycache__": false, "a.pyc.txt": false} {
		if got := Excluded(list[:2], name); got != want {
			t.Errorf("Excluded(%q) = %v", name, got)
		}
		if !Excluded(list, name) {
			t.Errorf("* does not exclude %q", name)
		}
	}
}

func TestRunSpecCheck(t *testing.T) {
	good := testSpec()
	if err := good.Check(); err != nil {
		t.Fatalf("a good spec: %v", err)
	}
	for name, c := range map[string]struct {
		change func(*RunSpec)
		want   string
	}{
		"no config":          {func(s *RunSpec) { s.Config = "" }, "config and id"},
		"no run id":          {func(s *RunSpec) { s.RunID = "" }, "run_id"},
		"no steps":           {func(s *RunSpec) { s.Steps = nil }, "steps: at least one"},
		"no command":         {func(s *RunSpec) { s.Steps[0].Argv = nil }, "steps[0].argv"},
		"NUL":                {func(s *RunSpec) { s.Steps[0].Args = []string{"\x00"} }, "steps[0]: an argument contains NUL"},
		"program a path":     {func(s *RunSpec) { s.Program.File = "a/b" }, "program.file"},
		"program too long":   {func(s *RunSpec) { s.Program.File = strings.Repeat("x", 256) }, "256 bytes"},
		"input elsewhere":    {func(s *RunSpec) { s.Inputs[0].Path = "/etc/passwd" }, "inputs[0]: path \"/etc/passwd\" is not below /mnt/data"},
		"input the root":     {func(s *RunSpec) { s.Inputs[0].Path = DataDir }, "inputs[0]"},
		"no source":          {func(s *RunSpec) { s.Inputs[0].CopyFrom = nil }, "exactly one of"},
		"two sources":        {func(s *RunSpec) { s.Inputs[0].Chunked = true }, "exactly one of"},
		"no source id":       {func(s *RunSpec) { s.Inputs[0].CopyFrom.ID = "" }, "copy_from.id"},
		"source path":        {func(s *RunSpec) { s.Inputs[0].CopyFrom.Path = "x" }, "copy_from: path"},
		"source digest":      {func(s *RunSpec) { s.Inputs[0].CopyFrom.SHA256 = strings.Repeat("G", 64) }, "copy_from.sha256"},
		"too much inline":    {func(s *RunSpec) { s.Program.Source = make([]byte, maxInline+1) }, "use chunked inputs"},
		"variable":           {func(s *RunSpec) { s.Env = map[string]string{"A": "\x00"} }, "env: \"A\""},
		"directory":          {func(s *RunSpec) { s.Dir = "/mnt/data/.." }, "dir: path"},
		"collect root":       {func(s *RunSpec) { s.Collect.Root = "x" }, "collect.root"},
		"collect limit":      {func(s *RunSpec) { s.Collect.MaxFiles = -1 }, "collect: a limit"},
		"limit":              {func(s *RunSpec) { s.Limits.CPUs = -0.5 }, "limits: a limit"},
		"limit not a number": {func(s *RunSpec) { s.Limits.CPUs = nan() }, "limits: a limit"},
	} {
		spec := testSpec()
		c.change(&spec)
		err := spec.Check()
		if KindOf(err) != KindInvalidRequest || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}

func nan() float64 {
	zero := 0.0
	return zero / zero
}
