package agentwire

import (
	"time"

	"github.com/caisson-run/caisson/sdk/backend/files"
)

// Manner is how a program is run.
type Manner byte

const (
	// Foreground runs follow each other and end with their caller.
	Foreground Manner = 1 + iota
	// Detached runs outlive their caller until TTL.
	Detached
	// Command is a run without program, inputs and collection, beside all others.
	Command
)

// DefaultWall is the wall limit of a run whose Limits name none.
const DefaultWall = 30 * time.Second

// Limits is backend.Limits with everything filled in that has a default outside the
// container.
type Limits struct {
	Wall, CPU                time.Duration
	MemoryBytes              int64
	Processes                int64
	StdoutBytes, StderrBytes int64
	DiskBytes, DiskFiles     int64
}

func (l *Limits) code(c *coder) {
	c.dur(&l.Wall)
	c.dur(&l.CPU)
	c.int(&l.MemoryBytes)
	c.int(&l.Processes)
	c.int(&l.StdoutBytes)
	c.int(&l.StderrBytes)
	c.int(&l.DiskBytes)
	c.int(&l.DiskFiles)
}

// Run is one unit of work.
type Run struct {
	RunID  string
	Manner Manner
	File   string
	// Source is the program, unless it follows: then it comes as the first input does.
	Source  []byte
	Follows bool
	Inputs  []Input
	Steps   []Step
	Env     []Pair
	Dir     string
	Stdin   bool
	Limits  Limits
	Collect files.CollectSpec
	// TTL ends a detached run; Rejoin a foreground one whose connection broke.
	TTL, Rejoin time.Duration
	// Control lets the program of the last step make calls, which OpControl serves:
	// without it they wait. Beside is the most processor time beside open ones.
	Control bool
	Beside  time.Duration
}

func (r *Run) code(c *coder) {
	c.str(&r.RunID)
	c.byte((*byte)(&r.Manner))
	c.str(&r.File)
	c.bytes(&r.Source)
	c.bool(&r.Follows)
	list(c, &r.Inputs, func(in *Input) { in.code(c) })
	list(c, &r.Steps, func(s *Step) { c.strs(&s.Argv); c.strs(&s.Args) })
	codePairs(c, &r.Env)
	c.str(&r.Dir)
	c.bool(&r.Stdin)
	r.Limits.code(c)
	codeCollect(c, &r.Collect)
	c.dur(&r.TTL)
	c.dur(&r.Rejoin)
	c.bool(&r.Control)
	c.dur(&r.Beside)
}

func codeCollect(c *coder, s *files.CollectSpec) {
	c.str(&s.Root)
	c.num(&s.MaxFiles)
	c.int(&s.MaxFileBytes)
	c.num(&s.MaxDepth)
	c.strs(&s.Exclude)
	c.bool(&s.Skip)
}

// Input is a file to place. Unless Inline is set its content comes on ChanInput and
// ends with an InputEnd, in the order of the inputs.
type Input struct {
	Path     string
	Mode     uint32
	Optional bool
	// SHA256 refuses other content; empty takes any.
	SHA256 string
	Inline bool
	Data   []byte
}

func (in *Input) code(c *coder) {
	c.str(&in.Path)
	c.mode(&in.Mode)
	c.bool(&in.Optional)
	c.str(&in.SHA256)
	c.bool(&in.Inline)
	c.bytes(&in.Data)
}

// InputEnd ends the content of an input. A fault says that it could not be had. Mode
// is that of the file where it is only known now.
type InputEnd struct {
	Mode  uint32
	Fault Fault
}

func (e *InputEnd) code(c *coder) { c.mode(&e.Mode); e.Fault.code(c) }

// Step is one command. In Argv, and in the values of the run's environment, "{dir}"
// stands for the program's directory.
type Step struct{ Argv, Args []string }

// Attach follows a run that is known by its id.
type Attach struct {
	RunID string
	// Offset is how many bytes of output, of both streams together, are there already.
	Offset int64
	// Takeover makes this the caller of a foreground run, as if it had started it.
	Takeover bool
	Rejoin   time.Duration
}

func (a *Attach) code(c *coder) {
	c.str(&a.RunID)
	c.int(&a.Offset)
	c.bool(&a.Takeover)
	c.dur(&a.Rejoin)
}

// Exit is how a run ended: backend.RunResult without Changed and Deleted, which flow
// before it.
type Exit struct {
	Stop                             string
	ExitCode                         int
	Signal                           string
	Step                             int
	Message                          string
	StdoutBytes, StderrBytes         int64
	StdoutTruncated, StderrTruncated bool
	Skipped                          int
	CollectFailed                    bool
	MissingInputs                    []string
	Wall, CPU                        time.Duration
	PeakMemoryBytes                  int64
	BytesIn, BytesOut                int64
}

func (e *Exit) code(c *coder) {
	c.str(&e.Stop)
	c.num(&e.ExitCode)
	c.str(&e.Signal)
	c.num(&e.Step)
	c.str(&e.Message)
	c.int(&e.StdoutBytes)
	c.int(&e.StderrBytes)
	c.bool(&e.StdoutTruncated)
	c.bool(&e.StderrTruncated)
	c.num(&e.Skipped)
	c.bool(&e.CollectFailed)
	c.strs(&e.MissingInputs)
	c.dur(&e.Wall)
	c.dur(&e.CPU)
	c.int(&e.PeakMemoryBytes)
	c.int(&e.BytesIn)
	c.int(&e.BytesOut)
}
