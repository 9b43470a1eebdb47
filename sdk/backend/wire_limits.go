package backend

import "time"

// Sizes on the wire. They are part of the protocol: a peer may rely on them.
const (
	// maxMessage bounds every message either way.
	maxMessage = 4 << 20
	// chunkBytes is the most content in one frame: with its few bytes of framing
	// it fits a 256 KiB buffer, the size at which a local stream is fastest.
	chunkBytes = 255 << 10
	// window is how much of stdin, and of chunked inputs, a host may send
	// beyond what the plugin has granted.
	window = 1 << 20
	// batchBytes is where a listing is cut into messages: far below maxMessage,
	// since one more entry still has to fit.
	batchBytes = 512 << 10
	// entryOverhead is roughly what an entry takes besides its path.
	entryOverhead = 128
)

// Bounds on what a peer may make us hold.
const (
	// maxListed and maxListedBytes bound one listing, or what one run changed.
	maxListed      = 1 << 20
	maxListedBytes = 256 << 20
	// maxKeptOutput bounds a stream of a run whose spec names no limit.
	maxKeptOutput = 256 << 20
	// maxCall bounds the input and the result of one programmatic call.
	maxCall = 64 << 20
	// maxOpenCalls bounds the calls of one run that wait for an answer, and
	// maxCallBytes their input together.
	maxOpenCalls = 256
	maxCallBytes = 2 * maxCall
	// defaultExecOutput is what ExecRequest.MaxOutputBytes means by zero.
	defaultExecOutput = 1 << 20
)

// Deadlines of calls whose caller set none. Nothing may hang for ever on a
// plugin that is frozen.
const (
	deadlineShort = 5 * time.Second  // Info, Health
	deadlineCall  = 30 * time.Second // what only looks or touches a file
	deadlineList  = 2 * time.Minute  // listings, which may be many pages at a provider
	deadlineLong  = 5 * time.Minute  // what makes, wakes, captures or builds
	// deadlineExec is added to ExecRequest.Timeout, or stands for it.
	deadlineExecSlack   = 30 * time.Second
	deadlineExecDefault = 10 * time.Minute
	// cancelGrace is how long a cancelled run may take to report what it left.
	cancelGrace = 10 * time.Second
	// overrun is how long after its wall limit a run may still take to stop the
	// program and to find what changed. Then the host stops it.
	overrun = 2 * time.Minute
)
