package language

import (
	"maps"
	"slices"

	"github.com/caisson-run/caisson/sdk/canon"
)

// AppendJSON appends t in canonical form.
func (t *Table) AppendJSON(dst []byte) []byte {
	o := canon.NewObject(dst)
	o.Value("languages", func(dst []byte) []byte {
		dst = append(dst, '[')
		for i := range t.Languages {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = t.Languages[i].appendJSON(dst)
		}
		return append(dst, ']')
	})
	return o.Close()
}

func (l *Language) appendJSON(dst []byte) []byte {
	o := canon.NewObject(dst)
	o.OptBool("advertised", l.Advertised)
	o.OptStrings("aliases", l.Aliases)
	o.String("id", l.ID)
	o.String("name", l.Name)
	o.Strings("toolchains", l.Toolchains)
	return o.Close()
}

// AppendJSON appends r in canonical form.
func (r *PlanRequest) AppendJSON(dst []byte) []byte {
	o := canon.NewObject(dst)
	o.OptStrings("args", r.Args)
	o.OptString("file", r.File)
	o.String("language", r.Language)
	o.String("toolchain", r.Toolchain)
	return o.Close()
}

// AppendJSON appends p in canonical form.
func (p *Plan) AppendJSON(dst []byte) []byte {
	o := canon.NewObject(dst)
	if len(p.Env) > 0 {
		o.Value("env", p.appendEnv)
	}
	o.String("file", p.File)
	o.Value("steps", func(dst []byte) []byte {
		dst = append(dst, '[')
		for i := range p.Steps {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = p.Steps[i].appendJSON(dst)
		}
		return append(dst, ']')
	})
	return o.Close()
}

func (p *Plan) appendEnv(dst []byte) []byte {
	o := canon.NewObject(dst)
	for _, name := range slices.Sorted(maps.Keys(p.Env)) {
		o.String(name, p.Env[name])
	}
	return o.Close()
}

func (s *Step) appendJSON(dst []byte) []byte {
	o := canon.NewObject(dst)
	o.OptStrings("args", s.Args)
	o.Strings("argv", s.Argv)
	o.String("name", s.Name)
	return o.Close()
}
