package policy

import (
	"strconv"

	"github.com/caisson-run/caisson/sdk/canon"
)

// AppendJSON appends r in canonical form. It allocates nothing if dst has room.
func (r *Request) AppendJSON(dst []byte) []byte {
	o := canon.NewObject(dst)
	o.OptStrings("args", r.Args)
	o.OptString("code", r.Code)
	o.Int("code_bytes", r.CodeBytes)
	o.String("config", r.Config)
	if len(r.Files) > 0 {
		o.Value("files", func(dst []byte) []byte { return appendFiles(dst, r.Files) })
	}
	o.String("language", r.Language)
	o.Value("limits", r.Limits.appendJSON)
	o.String("network", r.Network)
	o.String("org", r.Org)
	o.OptString("session", r.Session)
	o.OptString("toolchain", r.Toolchain)
	o.OptString("user", r.User)
	o.String("via", r.Via)
	return o.Close()
}

func appendFiles(dst []byte, files []File) []byte {
	dst = append(dst, '[')
	for i := range files {
		if i > 0 {
			dst = append(dst, ',')
		}
		o := canon.NewObject(dst)
		o.String("name", files[i].Name)
		o.Int("size", files[i].Size)
		dst = o.Close()
	}
	return append(dst, ']')
}

// AppendJSON appends v in canonical form.
func (v *Verdict) AppendJSON(dst []byte) []byte {
	o := canon.NewObject(dst)
	o.OptString("code", v.Code)
	o.String("decision", string(v.Decision))
	if v.Limits != (Limits{}) {
		o.Value("limits", v.Limits.appendJSON)
	}
	o.OptString("reason", v.Reason)
	return o.Close()
}

func (l *Limits) appendJSON(dst []byte) []byte {
	o := canon.NewObject(dst)
	for i, value := range l.values() {
		o.OptInt(limitNames[i], *value)
	}
	return o.Close()
}

// limitNames are the members of Limits in canonical order; values has the same.
var limitNames = [...]string{
	"changed_file_bytes", "changed_files", "cpu_ms", "memory_bytes",
	"processes", "stderr_bytes", "stdout_bytes", "wall_ms",
}

func (l *Limits) values() [len(limitNames)]*int64 {
	return [...]*int64{
		&l.ChangedFileBytes, &l.ChangedFiles, &l.CPUMS, &l.MemoryBytes,
		&l.Processes, &l.StderrBytes, &l.StdoutBytes, &l.WallMS,
	}
}

// String lists the limits that are set, for logs: "wall_ms=1000 processes=16".
func (l Limits) String() string {
	var b []byte
	for i, value := range l.values() {
		if *value == 0 {
			continue
		}
		if len(b) > 0 {
			b = append(b, ' ')
		}
		b = append(append(b, limitNames[i]...), '=')
		b = strconv.AppendInt(b, *value, 10)
	}
	return string(b)
}
