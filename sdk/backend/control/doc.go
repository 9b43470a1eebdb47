// Package control is the channel over which a running program asks the outside for
// something: programmatic calls (backend.RunSpec.Control). It is what backends have in
// common, whatever carries the bytes: frames, the calls of one run that wait for an
// answer, the wall clock that stands still meanwhile, and the command of shells.
//
// It is a package of its own, with nothing of gRPC, so that small programs inside
// sandboxes can use it; package backend has its types under its own names.
//
// # What programs see
//
// The environment of a run's last step has EnvPath, the absolute path of the channel.
// Each time it is opened gives a connection of its own. Where systems have sockets it
// is a unix stream socket; in the WebAssembly sandbox it is a file that is opened for
// reading and writing. Nobody but the run can open it, and it is gone with the run.
//
// A frame is one line: a JSON object in UTF-8 without a line feed inside, and a line
// feed after it, together at most MaxFrame bytes. From the program:
//
//	{"id":"a","name":"weather","input":{"city":"Bergen"}}
//
// with exactly these members: an id of 1 to MaxID bytes that no open call of the
// connection has, a name of 1 to MaxName bytes, and any JSON value. To the program, in
// any order:
//
//	{"id":"a","result":{"celsius":9}}
//	{"id":"a","error":"no such city"}
//
// A frame that is not that ends the connection: what was answered until then can still
// be read, then there is the end of the file, and what is written fails. Closing a
// connection, or its writing half, withdraws the calls that are open on it.
//
// Of one run at most MaxOpen calls are open at once, whose inputs take at most MaxHeld
// bytes, on at most MaxConns connections. Beyond that nothing more is read or accepted
// until there is room; the file of the WebAssembly sandbox cannot be opened then
// (EAGAIN). Answers that a program does not fetch are kept up to 64 MiB; further
// ones become errors.
//
// # Commands
//
// EnvCall names a command for shells: "$CAISSON_CALL" NAME [JSON]. See Command.
//
// # Time
//
// While at least one call is open the wall clock of the run stands still; when the last
// one is answered it starts anew from zero. See Clock. What programs compute meanwhile
// is bounded by processor time; see Beside.
package control
