package backend

import (
	"fmt"
	"slices"
	"strings"
)

// maxInline bounds the program source and all inline inputs of a run together:
// a backend holds them in memory.
const maxInline = 64 << 20

// Check reports what is wrong with a spec, as a KindInvalidRequest naming the
// field. The host and Serve call it before anything is spent, so that a backend
// can rely on: a Ref, well-formed paths below DataDir, one source per input, at
// least one step with a command, and no negative limit.
func (s *RunSpec) Check() error {
	if err := s.check(); err != nil {
		return Errorf(KindInvalidRequest, "Run", "%w", err)
	}
	return nil
}

func (s *RunSpec) check() error {
	switch {
	case s.Config == "" || s.ID == "":
		return fmt.Errorf("config and id are required")
	case s.RunID == "":
		return fmt.Errorf("run_id is required")
	case len(s.Steps) == 0:
		return fmt.Errorf("steps: at least one is required")
	}
	if err := checkName(s.Program.File); err != nil {
		return fmt.Errorf("program.file: %w", err)
	}
	inline := len(s.Program.Source)
	for i, in := range s.Inputs {
		if err := in.check(); err != nil {
			return fmt.Errorf("inputs[%d]: %w", i, err)
		}
		inline += len(in.Inline)
	}
	if inline > maxInline {
		return fmt.Errorf("program and inline inputs are %d bytes, more than %d: use chunked inputs", inline, maxInline)
	}
	for i, step := range s.Steps {
		if len(step.Argv) == 0 || step.Argv[0] == "" {
			return fmt.Errorf("steps[%d].argv: a command is required", i)
		}
		if slices.ContainsFunc(slices.Concat(step.Argv, step.Args), hasNUL) {
			return fmt.Errorf("steps[%d]: an argument contains NUL", i)
		}
	}
	if err := checkEnv(s.Env); err != nil {
		return err
	}
	for name, dir := range map[string]string{"dir": s.Dir, "collect.root": s.Collect.Root} {
		if dir == "" {
			continue
		}
		if err := CheckPath(dir); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	if s.Collect.MaxFiles < 0 || s.Collect.MaxFileBytes < 0 || s.Collect.MaxDepth < 0 {
		return fmt.Errorf("collect: a limit is negative")
	}
	return s.Limits.check()
}

func (in *Input) check() error {
	if err := CheckPath(in.Path); err != nil {
		return err
	}
	if in.Path == DataDir || !Within(DataDir, in.Path) {
		return fmt.Errorf("path %q is not below %s", in.Path, DataDir)
	}
	sources := 0
	for _, set := range []bool{in.Inline != nil, in.Chunked, in.CopyFrom != nil} {
		if set {
			sources++
		}
	}
	if sources != 1 {
		return fmt.Errorf("exactly one of inline, chunked and copy_from is required, not %d", sources)
	}
	if c := in.CopyFrom; c != nil {
		if c.ID == "" {
			return fmt.Errorf("copy_from.id is required")
		}
		if err := CheckPath(c.Path); err != nil {
			return fmt.Errorf("copy_from: %w", err)
		}
		if c.SHA256 != "" && !isDigest(c.SHA256) {
			return fmt.Errorf("copy_from.sha256 is not 64 lower-case hex digits")
		}
	}
	return nil
}

func (l *Limits) check() error {
	if l.Wall < 0 || l.CPU < 0 || l.MemoryBytes < 0 || !(l.CPUs >= 0) || l.Processes < 0 ||
		l.StdoutBytes < 0 || l.StderrBytes < 0 || l.DiskBytes < 0 || l.DiskFiles < 0 {
		return fmt.Errorf("limits: a limit is negative")
	}
	return nil
}

// Check reports what is wrong with a request, as a KindInvalidRequest.
func (r *ExecRequest) Check() error {
	invalid := func(format string, args ...any) error {
		return Errorf(KindInvalidRequest, "Exec", format, args...)
	}
	switch {
	case r.Config == "" || r.ID == "":
		return invalid("config and id are required")
	case len(r.Argv) == 0 || r.Argv[0] == "":
		return invalid("argv: a command is required")
	case r.Shell && len(r.Argv) != 1:
		return invalid("argv: with shell it has one element, the command line")
	case slices.ContainsFunc(r.Argv, hasNUL):
		return invalid("argv: an argument contains NUL")
	case r.Timeout < 0 || r.MaxOutputBytes < 0:
		return invalid("a limit is negative")
	}
	if r.Dir != "" {
		if err := CheckPath(r.Dir); err != nil {
			return invalid("dir: %w", err)
		}
	}
	if err := checkEnv(r.Env); err != nil {
		return invalid("%w", err)
	}
	return nil
}

// CheckResult reports in what a result breaks its contract with this spec, nil
// when it does not. The host checks what plugins answer with it, before any
// path in it is used.
func (s *RunSpec) CheckResult(r RunResult) error {
	if r.Step < 0 || r.Step >= len(s.Steps) {
		return fmt.Errorf("step %d of %d", r.Step, len(s.Steps))
	}
	root := s.Collect.Root
	if root == "" {
		root = DataDir
	}
	if err := checkOutcome(r, root, s.Collect); err != nil {
		return err
	}
	for _, p := range r.MissingInputs {
		if !slices.ContainsFunc(s.Inputs, func(in Input) bool { return in.Optional && in.Path == p }) {
			return fmt.Errorf("missing input %q is not an optional input", p)
		}
	}
	return nil
}

// checkOutcome checks what does not depend on the steps and inputs of a run.
func checkOutcome(r RunResult, root string, asked CollectSpec) error {
	if _, ok := stopEnum.number(r.Stop); !ok {
		return fmt.Errorf("stop reason %q is none of the seven", r.Stop)
	}
	if r.StdoutBytes < 0 || r.StderrBytes < 0 || r.Skipped < 0 {
		return fmt.Errorf("a count is negative")
	}
	u := r.Usage
	if min(u.Wall, u.CPU) < 0 || min(u.PeakMemoryBytes, u.BytesIn, u.BytesOut) < 0 {
		return fmt.Errorf("usage is negative")
	}
	if (asked.Skip || r.CollectFailed) && len(r.Changed)+len(r.Deleted) > 0 {
		return fmt.Errorf("changes reported although none were collected")
	}
	if limit := asked.MaxFiles; len(r.Changed) > maxListed || limit > 0 && len(r.Changed) > limit {
		return fmt.Errorf("%d changed files, more than asked for", len(r.Changed))
	}
	for i, e := range r.Changed {
		switch {
		case CheckPath(e.Path) != nil || e.Path == root || !Within(root, e.Path):
			return fmt.Errorf("changed file %q is not below %s", e.Path, root)
		case e.Type != EntryFile:
			return fmt.Errorf("changed file %q has type %q", e.Path, e.Type)
		case e.Size < 0 || asked.MaxFileBytes > 0 && e.Size > asked.MaxFileBytes:
			return fmt.Errorf("changed file %q has %d bytes", e.Path, e.Size)
		case !isDigest(e.SHA256):
			return fmt.Errorf("changed file %q has no digest", e.Path)
		case i > 0 && e.Path <= r.Changed[i-1].Path:
			return fmt.Errorf("changed file %q is out of order or doubled", e.Path)
		}
	}
	if len(r.Deleted) > maxListed {
		return fmt.Errorf("%d deleted files", len(r.Deleted))
	}
	for _, p := range r.Deleted {
		if CheckPath(p) != nil || p == root || !Within(root, p) {
			return fmt.Errorf("deleted file %q is not below %s", p, root)
		}
	}
	return nil
}

func checkEnv(env map[string]string) error {
	for k, v := range env {
		if k == "" || strings.ContainsAny(k, "=\x00") || hasNUL(v) {
			return fmt.Errorf("env: %q is no variable", k)
		}
	}
	return nil
}

func hasNUL(s string) bool { return strings.IndexByte(s, 0) >= 0 }

func isDigest(s string) bool {
	return len(s) == 64 && strings.Trim(s, "0123456789abcdef") == ""
}
