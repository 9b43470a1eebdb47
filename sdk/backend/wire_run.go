package backend

import (
	"time"

	pb "github.com/caisson-run/caisson/sdk/backend/backendpb"
)

// toPBStart converts all of a spec but its content, which follows in chunks.
func toPBStart(s RunSpec, ttl time.Duration) *pb.RunStart {
	return &pb.RunStart{
		Ref:         toPBRef(s.Ref),
		RunId:       s.RunID,
		Inputs:      mapSlice(s.Inputs, toPBInput),
		ProgramFile: s.Program.File,
		Steps: mapSlice(s.Steps, func(st Step) *pb.Step {
			return &pb.Step{Name: st.Name, Argv: toBytes(st.Argv), Args: toBytes(st.Args)}
		}),
		Env:     toBytesMap(s.Env),
		Dir:     []byte(s.Dir),
		Stdin:   s.Stdin,
		Control: s.Control,
		Limits:  toPBLimits(s.Limits),
		Collect: &pb.CollectSpec{
			Root:         []byte(s.Collect.Root),
			MaxFiles:     int64(s.Collect.MaxFiles),
			MaxFileBytes: s.Collect.MaxFileBytes,
			MaxDepth:     int64(s.Collect.MaxDepth),
			Exclude:      s.Collect.Exclude,
			Skip:         s.Collect.Skip,
		},
		Ttl: toPBDuration(ttl),
	}
}

// fromPBStart leaves the content of the program and of inline inputs out.
func fromPBStart(p *pb.RunStart) DetachedStart {
	c := p.GetCollect()
	return DetachedStart{
		RunSpec: RunSpec{
			Ref:     fromPBRef(p.GetRef()),
			RunID:   p.GetRunId(),
			Inputs:  mapSlice(p.GetInputs(), fromPBInput),
			Program: Program{File: p.GetProgramFile()},
			Steps: mapSlice(p.GetSteps(), func(st *pb.Step) Step {
				return Step{Name: st.GetName(), Argv: fromBytes(st.GetArgv()), Args: fromBytes(st.GetArgs())}
			}),
			Env:     fromBytesMap(p.GetEnv()),
			Dir:     string(p.GetDir()),
			Stdin:   p.GetStdin(),
			Control: p.GetControl(),
			Limits:  fromPBLimits(p.GetLimits()),
			Collect: CollectSpec{
				Root:         string(c.GetRoot()),
				MaxFiles:     int(c.GetMaxFiles()),
				MaxFileBytes: c.GetMaxFileBytes(),
				MaxDepth:     int(c.GetMaxDepth()),
				Exclude:      c.GetExclude(),
				Skip:         c.GetSkip(),
			},
		},
		TTL: p.GetTtl().AsDuration(),
	}
}

func toPBInput(in Input) *pb.Input {
	out := &pb.Input{Path: []byte(in.Path), Optional: in.Optional}
	switch {
	case in.CopyFrom != nil:
		out.Source = &pb.Input_CopyFrom{CopyFrom: &pb.CopySource{
			Id: in.CopyFrom.ID, Path: []byte(in.CopyFrom.Path), Sha256: in.CopyFrom.SHA256,
		}}
	case in.Chunked:
		out.Source = &pb.Input_Chunked{Chunked: &pb.ChunkedSource{}}
	default:
		out.Source = &pb.Input_Inline{Inline: &pb.InlineSource{}}
	}
	return out
}

func fromPBInput(p *pb.Input) Input {
	in := Input{Path: string(p.GetPath()), Optional: p.GetOptional()}
	switch src := p.GetSource().(type) {
	case *pb.Input_Inline:
		in.Inline = []byte{}
	case *pb.Input_Chunked:
		in.Chunked = true
	case *pb.Input_CopyFrom:
		in.CopyFrom = &CopySource{
			ID: src.CopyFrom.GetId(), Path: string(src.CopyFrom.GetPath()), SHA256: src.CopyFrom.GetSha256(),
		}
	}
	return in
}

func toPBUsage(u Usage) *pb.Usage {
	return &pb.Usage{
		Wall:            toPBDuration(u.Wall),
		Cpu:             toPBDuration(u.CPU),
		Fuel:            u.Fuel,
		PeakMemoryBytes: u.PeakMemoryBytes,
		BytesIn:         u.BytesIn,
		BytesOut:        u.BytesOut,
	}
}

func fromPBUsage(u *pb.Usage) Usage {
	return Usage{
		Wall:            u.GetWall().AsDuration(),
		CPU:             u.GetCpu().AsDuration(),
		Fuel:            u.GetFuel(),
		PeakMemoryBytes: u.GetPeakMemoryBytes(),
		BytesIn:         u.GetBytesIn(),
		BytesOut:        u.GetBytesOut(),
	}
}

func toPBExit(r RunResult) *pb.RunExit {
	return &pb.RunExit{
		Stop:            stopEnum.numberOr(r.Stop, pb.StopReason_STOP_REASON_UNSPECIFIED),
		ExitCode:        int64(r.ExitCode),
		Signal:          text(r.Signal),
		Step:            int64(r.Step),
		Message:         errorText(r.Message),
		StdoutBytes:     r.StdoutBytes,
		StderrBytes:     r.StderrBytes,
		StdoutTruncated: r.StdoutTruncated,
		StderrTruncated: r.StderrTruncated,
		Skipped:         int64(r.Skipped),
		CollectFailed:   r.CollectFailed,
	}
}

// fromPBExit fills in r what travels in the exit frame. An unknown stop reason
// stays empty, which CheckResult refuses.
func fromPBExit(p *pb.RunExit, r *RunResult) {
	r.Stop = stopEnum.word(p.GetStop(), "")
	r.ExitCode = int(p.GetExitCode())
	r.Signal = errorText(p.GetSignal())
	r.Step = int(p.GetStep())
	r.Message = errorText(p.GetMessage())
	r.StdoutBytes, r.StderrBytes = p.GetStdoutBytes(), p.GetStderrBytes()
	r.StdoutTruncated, r.StderrTruncated = p.GetStdoutTruncated(), p.GetStderrTruncated()
	r.Skipped = int(p.GetSkipped())
	r.CollectFailed = p.GetCollectFailed()
}

// changedFrames splits what a run changed into messages of bounded size.
func changedFrames(r RunResult, send func(*pb.RunChanged) error) error {
	var frame pb.RunChanged
	size := 0
	flush := func() error {
		if size == 0 {
			return nil
		}
		out := pb.RunChanged{Entries: frame.Entries, Deleted: frame.Deleted, MissingInputs: frame.MissingInputs}
		frame, size = pb.RunChanged{}, 0
		return send(&out)
	}
	grow := func(n int) error {
		size += n + entryOverhead
		if size >= batchBytes {
			return flush()
		}
		return nil
	}
	for _, e := range r.Changed {
		frame.Entries = append(frame.Entries, toPBEntry(e))
		if err := grow(len(e.Path)); err != nil {
			return err
		}
	}
	for _, p := range r.Deleted {
		frame.Deleted = append(frame.Deleted, []byte(p))
		if err := grow(len(p)); err != nil {
			return err
		}
	}
	for _, p := range r.MissingInputs {
		frame.MissingInputs = append(frame.MissingInputs, []byte(p))
		if err := grow(len(p)); err != nil {
			return err
		}
	}
	return flush()
}
