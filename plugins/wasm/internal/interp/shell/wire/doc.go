// Package wire is what a shell worker and the process that started it say to
// each other: how file operations and requests for programs are written down.
// It does no input or output but for frames, and knows nothing of shells.
//
// There are two sockets. On the first, a stream, the worker asks and waits for
// the answer, one request at a time: its job, every file operation, and at last
// its exit code. On the second, of packets, it asks for programs that the engine
// runs, with the pipes of their standard streams attached, and is told later how
// each of them ended.
//
// Both sides check what they read: the worker runs untrusted scripts, and this
// is the only way in which it can harm anybody.
package wire

// Sizes of what is sent, in bytes.
const (
	// MaxFrame bounds a frame on the stream: a job may carry large arguments.
	MaxFrame = 16 << 20
	// MaxData bounds the data of one read or write.
	MaxData = 128 << 10
	// MaxPacket bounds a packet. Arguments and environment of a program
	// must fit, as they must into the kernel's own limit.
	MaxPacket = 128 << 10
	// MaxEntries bounds the entries of a directory in one answer.
	MaxEntries = 256
)

// Descriptors of a worker beside the standard three. Descriptor 2 is for what
// the Go runtime says when it gives up, not for the script.
const (
	FDRequests = 3 // the stream
	FDPrograms = 4 // the packets
	FDStderr   = 5 // the script's standard error
	FDPipes    = 6 // an empty directory for named pipes
)
