package language

import (
	"github.com/caisson-run/caisson/sdk/canon"
)

// DecodeTable reads a table strictly and validates it.
func DecodeTable(data []byte) (Table, error) {
	if len(data) > MaxTableBytes {
		return Table{}, more("language table: size in bytes", MaxTableBytes)
	}
	var t Table
	r := canon.NewReader(data)
	r.Object(func(name string) {
		switch name {
		case "languages":
			r.Array(MaxLanguages, func() { t.Languages = append(t.Languages, decodeLanguage(r)) })
		default:
			r.Unknown()
		}
	})
	err := r.End()
	if err == nil {
		err = t.Validate()
	}
	if err != nil {
		return Table{}, canon.At("language table", err)
	}
	return t, nil
}

func decodeLanguage(r *canon.Reader) (l Language) {
	r.Object(func(name string) {
		switch name {
		case "advertised":
			l.Advertised = r.Bool()
		case "aliases":
			l.Aliases = r.Strings(MaxAliases)
		case "id":
			l.ID = r.String()
		case "name":
			l.Name = r.String()
		case "toolchains":
			l.Toolchains = r.Strings(MaxToolchains)
		default:
			r.Unknown()
		}
	})
	return l
}

// DecodePlan reads a plan strictly and validates it. The host also calls
// [Plan.CheckArgs] with the arguments it sent.
func DecodePlan(data []byte) (Plan, error) {
	if len(data) > MaxPlanBytes {
		return Plan{}, more("plan: size in bytes", MaxPlanBytes)
	}
	var p Plan
	r := canon.NewReader(data)
	r.Object(func(name string) {
		switch name {
		case "env":
			p.Env = map[string]string{}
			r.Object(func(variable string) { p.Env[variable] = r.String() })
		case "file":
			p.File = r.String()
		case "steps":
			r.Array(MaxSteps, func() { p.Steps = append(p.Steps, decodeStep(r)) })
		default:
			r.Unknown()
		}
	})
	err := r.End()
	if err == nil {
		err = p.Validate()
	}
	if err != nil {
		return Plan{}, canon.At("plan", err)
	}
	return p, nil
}

func decodeStep(r *canon.Reader) (s Step) {
	r.Object(func(name string) {
		switch name {
		case "args":
			s.Args = r.Strings(MaxArgs)
		case "argv":
			s.Argv = r.Strings(MaxArgv)
		case "name":
			s.Name = r.String()
		default:
			r.Unknown()
		}
	})
	return s
}

// DecodePlanRequest reads a request as a table sees it. Members it does not know
// are skipped, so that a table built today runs under a later host.
func DecodePlanRequest(data []byte) (PlanRequest, error) {
	var q PlanRequest
	r := canon.NewReader(data)
	r.Object(func(name string) {
		switch name {
		case "args":
			q.Args = r.Strings(MaxArgs)
		case "file":
			q.File = r.String()
		case "language":
			q.Language = r.String()
		case "toolchain":
			q.Toolchain = r.String()
		default:
			r.Skip()
		}
	})
	if err := r.End(); err != nil {
		return PlanRequest{}, canon.At("plan request", err)
	}
	return q, nil
}
