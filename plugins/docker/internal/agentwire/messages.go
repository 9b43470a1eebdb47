package agentwire

import (
	"time"

	"github.com/caisson-run/caisson/sdk/backend/files"
)

// Empty is no message.
type Empty struct{}

func (*Empty) code(*coder) {}

// Name is one name, Number one number.
type Name struct{ Name string }

func (n *Name) code(c *coder) { c.str(&n.Name) }

type Number struct{ N int }

func (n *Number) code(c *coder) { c.num(&n.N) }

// Names are some names.
type Names struct{ Names []string }

func (n *Names) code(c *coder) { c.strs(&n.Names) }

// Retire asks an agent to exit. Unless Force is set a busy one refuses with a conflict.
type Retire struct{ Force bool }

func (r *Retire) code(c *coder) { c.bool(&r.Force) }

// Listen asks for a further socket, for that peer.
type Listen struct {
	Path string
	UID  int
}

func (l *Listen) code(c *coder) { c.str(&l.Path); c.num(&l.UID) }

// Status describes an agent and what it has under way.
type Status struct {
	Started                time.Time
	UID, GID               int
	Caps, Bounding         uint64
	NoNewPrivs             bool
	Seccomp                int
	MemoryLimit, PidsLimit int64
	// Busy counts runs, commands and terminals; Idle is how long nothing was.
	Busy int
	Idle time.Duration
	// Goroutines, Descriptors and Children (zombies included) are the agent's own.
	Goroutines, Descriptors, Children int
}

func (s *Status) code(c *coder) {
	c.time(&s.Started)
	c.num(&s.UID)
	c.num(&s.GID)
	c.uint(&s.Caps)
	c.uint(&s.Bounding)
	c.bool(&s.NoNewPrivs)
	c.num(&s.Seccomp)
	c.int(&s.MemoryLimit)
	c.int(&s.PidsLimit)
	c.num(&s.Busy)
	c.dur(&s.Idle)
	c.num(&s.Goroutines)
	c.num(&s.Descriptors)
	c.num(&s.Children)
}

// Path is a path.
type Path struct{ Path string }

func (p *Path) code(c *coder) { c.str(&p.Path) }

func codeEntry(c *coder, e *files.Entry) {
	c.str(&e.Path)
	c.str((*string)(&e.Type))
	c.int(&e.Size)
	c.time(&e.Modified)
	c.mode(&e.Mode)
	c.str(&e.SHA256)
}

// Listing is some entries.
type Listing struct {
	Entries   []files.Entry
	Truncated bool
}

func (l *Listing) code(c *coder) {
	list(c, &l.Entries, func(e *files.Entry) { codeEntry(c, e) })
	c.bool(&l.Truncated)
}

// Walk is backend.WalkRequest.
type Walk struct {
	Root                 string
	MaxEntries, MaxDepth int
	Digests              bool
	MaxDigestBytes       int64
	Exclude              []string
}

func (w *Walk) code(c *coder) {
	c.str(&w.Root)
	c.num(&w.MaxEntries)
	c.num(&w.MaxDepth)
	c.bool(&w.Digests)
	c.int(&w.MaxDigestBytes)
	c.strs(&w.Exclude)
}

// Content is a file with its content, or the end of one that was streamed.
type Content struct {
	Entry files.Entry
	// Inline is set when the content is here and not on the stream.
	Inline bool
	Data   []byte
}

func (m *Content) code(c *coder) { codeEntry(c, &m.Entry); c.bool(&m.Inline); c.bytes(&m.Data) }

// Write replaces a file. Unless Inline is set its content follows on ChanContent.
type Write struct {
	Path      string
	Mode      uint32
	MaxBytes  int64
	Exclusive bool
	Inline    bool
	Data      []byte
}

func (w *Write) code(c *coder) {
	c.str(&w.Path)
	c.mode(&w.Mode)
	c.int(&w.MaxBytes)
	c.bool(&w.Exclusive)
	c.bool(&w.Inline)
	c.bytes(&w.Data)
}

// ContentEnd is the end of content; Failed says that it is not whole.
type ContentEnd struct{ Failed bool }

func (e *ContentEnd) code(c *coder) { c.bool(&e.Failed) }

// Pair is a variable of the environment.
type Pair struct{ Name, Value string }

func codePairs(c *coder, v *[]Pair) {
	list(c, v, func(p *Pair) { c.str(&p.Name); c.str(&p.Value) })
}

// Terminal opens a terminal, or attaches to the one with that PID.
type Terminal struct {
	PID  int
	Argv []string
	Dir  string
	Env  []Pair
	Size Size
}

func (t *Terminal) code(c *coder) {
	c.num(&t.PID)
	c.strs(&t.Argv)
	c.str(&t.Dir)
	codePairs(c, &t.Env)
	t.Size.code(c)
}

// Size is that of a terminal, in characters.
type Size struct{ Cols, Rows int }

func (s *Size) code(c *coder) { c.num(&s.Cols); c.num(&s.Rows) }

// Watch is a directory to watch.
type Watch struct {
	Path      string
	Recursive bool
}

func (w *Watch) code(c *coder) { c.str(&w.Path); c.bool(&w.Recursive) }

// Event is backend.WatchEvent.
type Event struct{ Path, Op string }

func (e *Event) code(c *coder) { c.str(&e.Path); c.str(&e.Op) }
