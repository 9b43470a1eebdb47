// Package agentwire is the protocol between the Docker backend and the resident agent
// in a container: the preamble, the frames, the streams over them and the messages in
// them. Both sides use it; it knows nothing of either.
//
// The agent writes a preamble first and the plugin answers with one, so that each knows
// whom it speaks to before it believes anything. After that there are frames only: a
// kind, a stream, a length and that many bytes. The plugin opens a stream for each
// request; the agent ends it with the answer. What flows meanwhile, in either
// direction, is bounded by credit: each side may have sent at most Window bytes (each
// frame counting frameCost more) that the other has not consumed. Nothing in a frame
// makes a receiver allocate more than the frame's own limit, a receiver's loop never
// writes, and whatever is not as written here ends the connection.
//
// It is not an existing multiplexer because small requests are to cost one frame each
// way, and because both sides have to distrust each other: with what there is the
// other side can make one keep goroutines and streams at will.
package agentwire
