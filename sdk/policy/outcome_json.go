package policy

import (
	"errors"
	"strconv"

	"github.com/caisson-run/caisson/sdk/canon"
)

// AppendJSON appends o in canonical form.
func (o *Outcome) AppendJSON(dst []byte) []byte {
	w := canon.NewObject(dst)
	if len(o.Changed) > 0 {
		w.Value("changed", func(dst []byte) []byte { return appendFiles(dst, o.Changed) })
	}
	w.OptInt("cpu_ms", o.CPUMS)
	w.Int("exit_code", o.ExitCode)
	w.OptInt("peak_memory_bytes", o.PeakMemoryBytes)
	w.Value("request", o.Request.AppendJSON)
	w.OptString("signal", o.Signal)
	w.OptString("stderr", o.Stderr)
	w.Int("stderr_bytes", o.StderrBytes)
	w.OptString("stdout", o.Stdout)
	w.Int("stdout_bytes", o.StdoutBytes)
	w.String("stop", o.Stop)
	w.OptInt("wall_ms", o.WallMS)
	return w.Close()
}

// DecodeOutcome reads an outcome as a policy sees it. Members it does not know are
// skipped, so that a policy built today runs under a later host.
func DecodeOutcome(data []byte) (Outcome, error) {
	var o Outcome
	r := canon.NewReader(data)
	r.Object(func(name string) {
		switch name {
		case "changed":
			r.Array(maxList, func() { o.Changed = append(o.Changed, decodeFile(r)) })
		case "cpu_ms":
			o.CPUMS = r.Int()
		case "exit_code":
			o.ExitCode = r.Int()
		case "peak_memory_bytes":
			o.PeakMemoryBytes = r.Int()
		case "request":
			o.Request = decodeRequest(r)
		case "signal":
			o.Signal = r.String()
		case "stderr":
			o.Stderr = r.String()
		case "stderr_bytes":
			o.StderrBytes = r.Int()
		case "stdout":
			o.Stdout = r.String()
		case "stdout_bytes":
			o.StdoutBytes = r.Int()
		case "stop":
			o.Stop = r.String()
		case "wall_ms":
			o.WallMS = r.Int()
		default:
			r.Skip()
		}
	})
	if err := r.End(); err != nil {
		return Outcome{}, canon.At("outcome", err)
	}
	return o, nil
}

// AppendJSON appends m in canonical form.
func (m *Remarks) AppendJSON(dst []byte) []byte {
	o := canon.NewObject(dst)
	if len(m.Warnings) > 0 {
		o.Value("warnings", func(dst []byte) []byte {
			dst = append(dst, '[')
			for i := range m.Warnings {
				if i > 0 {
					dst = append(dst, ',')
				}
				w := canon.NewObject(dst)
				w.OptString("code", m.Warnings[i].Code)
				w.String("reason", m.Warnings[i].Reason)
				dst = w.Close()
			}
			return append(dst, ']')
		})
	}
	return o.Close()
}

// DecodeRemarks reads remarks strictly: an unknown or repeated member, a wrong type,
// or a remark without a reason is an error. Nothing at all is no remarks.
func DecodeRemarks(data []byte) (Remarks, error) {
	var m Remarks
	if len(data) == 0 {
		return m, nil
	}
	if len(data) > MaxRemarksBytes {
		return m, errors.New("remarks of " + strconv.Itoa(len(data)) + " bytes are longer than " + strconv.Itoa(MaxRemarksBytes))
	}
	r := canon.NewReader(data)
	r.Object(func(name string) {
		if name != "warnings" {
			r.Unknown()
			return
		}
		r.Array(MaxRemarks, func() { m.Warnings = append(m.Warnings, decodeRemark(r)) })
	})
	err := r.End()
	if err == nil {
		err = m.Validate()
	}
	if err != nil {
		return Remarks{}, canon.At("remarks", err)
	}
	return m, nil
}

func decodeRemark(r *canon.Reader) (w Remark) {
	r.Object(func(name string) {
		switch name {
		case "code":
			w.Code = r.String()
		case "reason":
			w.Reason = r.String()
		default:
			r.Unknown()
		}
	})
	return w
}
