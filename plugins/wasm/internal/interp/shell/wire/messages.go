package wire

// Op is what a request asks for.
type Op uint32

// The operations. Paths are absolute guest paths.
const (
	OpJob      Op = iota + 1 // wait for the job: the answer's Data is a Job
	OpOpen                   // Path, Flags, Perm -> Handle
	OpRead                   // Handle, Size -> Data, empty at the end
	OpWrite                  // Handle, Data -> Size written
	OpSeek                   // Handle, Size, Flags as whence -> Size
	OpTruncate               // Handle, Size
	OpStatFile               // Handle -> one of Entries
	OpReadDir                // Handle -> Entries with their names, none at the end
	OpClose                  // Handle
	OpStat                   // Path -> one of Entries
	OpLstat                  // Path -> one of Entries
	OpReadlink               // Path -> Data
	OpMkdir                  // Path, Perm
	OpUnlink                 // Path
	OpRmdir                  // Path
	OpRename                 // Path, Target
	OpLink                   // Path, the new name in Target
	OpSymlink                // Path, its content in Target
	OpChmod                  // Path, Perm
	OpChtimes                // Path, Size as access and Time as modification time, UnixNano
	OpUsage                  // -> Size used, Time limit in bytes of the data directory
	OpExit                   // Size: the exit code; the worker ends after the answer
	opEnd
)

// Flags of OpOpen.
const (
	FlagRead = 1 << iota
	FlagWrite
	FlagCreate
	FlagExclusive
	FlagTruncate
	FlagAppend
	FlagDirectory
	FlagNoFollow
)

// Request is what a worker asks.
type Request struct {
	Op     Op
	Handle uint32
	Flags  uint32
	Perm   uint32 // permission bits
	Size   int64
	Time   int64
	Path   string
	Target string
	Data   []byte
}

// Append writes q behind b.
func (q *Request) Append(b []byte) []byte {
	w := writer{b}
	w.u32(uint32(q.Op))
	w.u32(q.Handle)
	w.u32(q.Flags)
	w.u32(q.Perm)
	w.u64(uint64(q.Size))
	w.u64(uint64(q.Time))
	w.str(q.Path)
	w.str(q.Target)
	w.bytes(q.Data)
	return w.b
}

// ParseRequest reads a request. Data shares memory with b.
func ParseRequest(b []byte) (Request, error) {
	r := reader{b: b}
	q := Request{Op: Op(r.u32()), Handle: r.u32(), Flags: r.u32(), Perm: r.u32(), Size: int64(r.u64()), Time: int64(r.u64()), Path: r.str(), Target: r.str(), Data: r.bytes()}
	if err := r.end(); err != nil {
		return Request{}, err
	}
	if q.Op == 0 || q.Op >= opEnd || len(q.Data) > MaxData {
		return Request{}, ErrMalformed
	}
	return q, nil
}

// Entry is what there is to know of a file.
type Entry struct {
	Name string
	// Mode is an io/fs.FileMode.
	Mode  uint32
	Links uint32
	Size  int64
	Inode uint64
	// Times in nanoseconds since 1970.
	Accessed, Modified, Changed int64
}

// entryBytes is the least size of an entry.
const entryBytes = 4 + 4 + 4 + 5*8

// Answer is the reply to a request.
type Answer struct {
	// Errno is an error number of Linux, 0 for success.
	Errno   uint32
	Handle  uint32
	Size    int64
	Time    int64
	Entries []Entry
	Data    []byte
}

// Append writes a behind b.
func (a *Answer) Append(b []byte) []byte {
	w := writer{b}
	w.u32(a.Errno)
	w.u32(a.Handle)
	w.u64(uint64(a.Size))
	w.u64(uint64(a.Time))
	w.u32(uint32(len(a.Entries)))
	for _, e := range a.Entries {
		w.str(e.Name)
		w.u32(e.Mode)
		w.u32(e.Links)
		for _, v := range []uint64{uint64(e.Size), e.Inode, uint64(e.Accessed), uint64(e.Modified), uint64(e.Changed)} {
			w.u64(v)
		}
	}
	w.bytes(a.Data)
	return w.b
}

// ParseAnswer reads an answer. Data shares memory with b.
func ParseAnswer(b []byte) (Answer, error) {
	r := reader{b: b}
	a := Answer{Errno: r.u32(), Handle: r.u32(), Size: int64(r.u64()), Time: int64(r.u64())}
	if n := r.count(entryBytes); n > 0 {
		a.Entries = make([]Entry, n)
	}
	for i := range a.Entries {
		a.Entries[i] = Entry{
			Name: r.str(), Mode: r.u32(), Links: r.u32(), Size: int64(r.u64()), Inode: r.u64(),
			Accessed: int64(r.u64()), Modified: int64(r.u64()), Changed: int64(r.u64()),
		}
	}
	a.Data = r.bytes()
	if err := r.end(); err != nil {
		return Answer{}, err
	}
	return a, nil
}

// Job is what a worker is for.
type Job struct {
	// Argv is the command line, "bash" first.
	Argv []string
	// Env has names and values as NAME=VALUE.
	Env []string
	// MemoryBytes and CPUSeconds are the limits of the process.
	MemoryBytes uint64
	CPUSeconds  uint64
	// Programs are the names of what the engine runs.
	Programs []string
}

// Append writes j behind b.
func (j *Job) Append(b []byte) []byte {
	w := writer{b}
	w.strs(j.Argv)
	w.strs(j.Env)
	w.u64(j.MemoryBytes)
	w.u64(j.CPUSeconds)
	w.strs(j.Programs)
	return w.b
}

// ParseJob reads a job.
func ParseJob(b []byte) (Job, error) {
	r := reader{b: b}
	j := Job{Argv: r.strs(), Env: r.strs(), MemoryBytes: r.u64(), CPUSeconds: r.u64(), Programs: r.strs()}
	if err := r.end(); err != nil {
		return Job{}, err
	}
	return j, nil
}

// Start asks for a program, or, without Argv, for its end. A packet with it has one descriptor for each
// of Streams attached, in their order.
type Start struct {
	// ID is the worker's own name for the program.
	ID      uint32
	Streams uint32 // StreamStdin | StreamStdout | StreamStderr
	Argv    []string
	Env     []string // NAME=VALUE
}

// Streams of a program that is started; without one it is empty or discarded.
const (
	StreamStdin = 1 << iota
	StreamStdout
	StreamStderr
)

// Append writes s behind b.
func (s *Start) Append(b []byte) []byte {
	w := writer{b}
	w.u32(s.ID)
	w.u32(s.Streams)
	w.strs(s.Argv)
	w.strs(s.Env)
	return w.b
}

// ParseStart reads a request for a program.
func ParseStart(b []byte) (Start, error) {
	r := reader{b: b}
	s := Start{ID: r.u32(), Streams: r.u32(), Argv: r.strs(), Env: r.strs()}
	if err := r.end(); err != nil {
		return Start{}, err
	}
	if s.Streams&^(StreamStdin|StreamStdout|StreamStderr) != 0 {
		return Start{}, ErrMalformed
	}
	return s, nil
}

// Ended says how a program ended.
type Ended struct {
	ID   uint32
	Code uint32
	// Message is for standard error: why the program could not start, or
	// why it was stopped.
	Message string
}

// Append writes e behind b.
func (e *Ended) Append(b []byte) []byte {
	w := writer{b}
	w.u32(e.ID)
	w.u32(e.Code)
	w.str(e.Message)
	return w.b
}

// ParseEnded reads the end of a program.
func ParseEnded(b []byte) (Ended, error) {
	r := reader{b: b}
	e := Ended{ID: r.u32(), Code: r.u32(), Message: r.str()}
	if err := r.end(); err != nil {
		return Ended{}, err
	}
	return e, nil
}
