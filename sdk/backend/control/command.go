package control

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"unicode/utf8"
)

// Command is what EnvCall names: NAME [JSON] makes one call. args are without the
// command's own name; ask makes the call. The result is one line of compact JSON on
// stdout, status 0. Whatever else there is to say goes to stderr, status 1: arguments
// that are none, JSON that does not parse, in which case no call is made, and the
// error of the call.
func Command(args []string, ask func(name string, input []byte) (Reply, error), stdout, stderr io.Writer) int {
	fail := func(format string, args ...any) int {
		_, _ = fmt.Fprintf(stderr, format+"\n", args...)
		return 1
	}
	if len(args) < 1 || len(args) > 2 || args[0] == "" {
		return fail("usage: $%s NAME [JSON]", EnvCall)
	}
	input := []byte("{}")
	if len(args) == 2 {
		input = []byte(args[1])
	}
	switch {
	case len(args[0]) > MaxName || !utf8.ValidString(args[0]):
		return fail("the name of the tool is longer than %d bytes, or no text", MaxName)
	case !json.Valid(input) || !utf8.Valid(input):
		return fail("the input of %s is not valid JSON", args[0])
	case len(input) > MaxValue:
		return fail("the input of %s has %d bytes, more than %d", args[0], len(input), MaxValue)
	}
	reply, err := ask(args[0], input)
	if err != nil {
		return fail("%s: %v", args[0], err)
	}
	if reply.Error != "" {
		return fail("%s", reply.Error)
	}
	var line bytes.Buffer
	if err := json.Compact(&line, reply.Result); err != nil {
		return fail("%s: the result is no JSON", args[0])
	}
	line.WriteByte('\n')
	if _, err := stdout.Write(line.Bytes()); err != nil {
		return fail("%s: %v", args[0], err)
	}
	return 0
}

// DialCommand is Command for a program of its own, which finds the channel at path.
func DialCommand(ctx context.Context, path string, args []string, stdout, stderr io.Writer) int {
	return Command(args, func(name string, input []byte) (Reply, error) {
		if path == "" {
			return Reply{}, fmt.Errorf("this run makes no calls: %s is not set", EnvPath)
		}
		conn, err := (&net.Dialer{}).DialContext(ctx, "unix", path)
		if err != nil {
			return Reply{}, fmt.Errorf("the run's control channel: %w", err)
		}
		defer conn.Close()
		return exchange(ctx, conn, name, input)
	}, stdout, stderr)
}

// exchange makes one call over a connection that nobody else uses and waits for its
// answer. When ctx ends the connection is closed.
func exchange(ctx context.Context, conn io.ReadWriteCloser, name string, input []byte) (Reply, error) {
	frame, err := appendCall(nil, Call{ID: "1", Name: name, Input: input})
	if err != nil {
		return Reply{}, err
	}
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
	_, err = conn.Write(frame)
	var line []byte
	if err == nil {
		line, err = readLine(conn)
	}
	if ctx.Err() != nil {
		return Reply{}, ctx.Err()
	}
	if err != nil {
		return Reply{}, fmt.Errorf("the connection ended before the answer: %w", err)
	}
	_, reply, err := parseReply(line)
	return reply, err
}

// maxReply bounds a frame of ours: an error may be longer in JSON than it is.
const maxReply = MaxFrame + 8*maxError

// readLine reads one frame.
func readLine(r io.Reader) ([]byte, error) {
	var line []byte
	buf := make([]byte, 64<<10)
	for {
		n, err := r.Read(buf)
		if at := bytes.IndexByte(buf[:n], '\n'); at >= 0 {
			return append(line, buf[:at]...), nil
		}
		if line = append(line, buf[:n]...); len(line) > maxReply {
			return nil, errFrame
		}
		if err != nil {
			return nil, err
		}
	}
}
