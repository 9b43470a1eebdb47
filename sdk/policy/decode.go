package policy

import (
	"errors"
	"strconv"

	"github.com/caisson-run/caisson/sdk/canon"
)

const (
	// MaxVerdictBytes bounds an encoded verdict.
	MaxVerdictBytes = 16 << 10
	// MaxReasonBytes bounds Verdict.Reason.
	MaxReasonBytes = 1 << 10
)

// maxList bounds lists in a request only so that a decoder has a bound: the host
// has bounded the request long before.
const maxList = 1 << 16

// DecodeVerdict reads a verdict strictly: an unknown or repeated member, a wrong
// type, a deny without a reason, or a negative limit is an error, and the host
// denies on any error.
func DecodeVerdict(data []byte) (Verdict, error) {
	if len(data) > MaxVerdictBytes {
		return Verdict{}, errors.New("verdict of " + strconv.Itoa(len(data)) + " bytes is longer than " + strconv.Itoa(MaxVerdictBytes))
	}
	var v Verdict
	r := canon.NewReader(data)
	r.Object(func(name string) {
		switch name {
		case "code":
			v.Code = r.String()
		case "decision":
			v.Decision = Decision(r.String())
		case "limits":
			v.Limits = decodeLimits(r, r.Unknown)
		case "reason":
			v.Reason = r.String()
		default:
			r.Unknown()
		}
	})
	err := r.End()
	if err == nil {
		err = v.Validate()
	}
	if err != nil {
		return Verdict{}, canon.At("verdict", err)
	}
	return v, nil
}

// Validate checks what a host demands of a verdict.
func (v *Verdict) Validate() error {
	switch v.Decision {
	case Allow:
	case Deny:
		if v.Reason == "" {
			return errors.New("reason: is required when the decision is deny")
		}
	default:
		return errors.New(`decision: want "allow" or "deny"`)
	}
	if err := checkReason(v.Reason); err != nil {
		return err
	}
	if err := checkCode(v.Code); err != nil {
		return err
	}
	for i, value := range v.Limits.values() {
		if *value < 0 {
			return errors.New("limits." + limitNames[i] + ": is negative")
		}
	}
	return nil
}

// DecodeRequest reads a request as a policy sees it. Members it does not know are
// skipped, so that a policy built today runs under a later host.
func DecodeRequest(data []byte) (Request, error) {
	return readRequest(new(canon.Reader), data)
}

// readRequest is DecodeRequest with a Reader that it may use.
func readRequest(r *canon.Reader, data []byte) (Request, error) {
	r.Reset(data)
	q := decodeRequest(r)
	if err := r.End(); err != nil {
		return Request{}, canon.At("request", err)
	}
	return q, nil
}

func decodeRequest(r *canon.Reader) (q Request) {
	r.Object(func(name string) {
		switch name {
		case "args":
			q.Args = r.Strings(maxList)
		case "code":
			q.Code = r.String()
		case "code_bytes":
			q.CodeBytes = r.Int()
		case "config":
			q.Config = r.String()
		case "files":
			r.Array(maxList, func() { q.Files = append(q.Files, decodeFile(r)) })
		case "language":
			q.Language = r.String()
		case "limits":
			q.Limits = decodeLimits(r, r.Skip)
		case "network":
			q.Network = r.String()
		case "org":
			q.Org = r.String()
		case "session":
			q.Session = r.String()
		case "toolchain":
			q.Toolchain = r.String()
		case "user":
			q.User = r.String()
		case "via":
			q.Via = r.String()
		default:
			r.Skip()
		}
	})
	return q
}

func decodeFile(r *canon.Reader) (f File) {
	r.Object(func(name string) {
		switch name {
		case "name":
			f.Name = r.String()
		case "size":
			f.Size = r.Int()
		default:
			r.Skip()
		}
	})
	return f
}

func decodeLimits(r *canon.Reader, unknown func()) (l Limits) {
	values := l.values()
	next := 0 // canonical text has the names in order
	r.Object(func(name string) {
		for range limitNames {
			i := next
			if next++; next == len(limitNames) {
				next = 0
			}
			if name == limitNames[i] {
				*values[i] = r.Int()
				return
			}
		}
		unknown()
	})
	return l
}
