package backend

import (
	"errors"
	"io"

	pb "github.com/caisson-run/caisson/sdk/backend/backendpb"
)

// errOver ends a sender that finds the call over after a Read. It is not active
// any more and may touch nothing.
var errOver = errors.New("the run is over")

// join makes a sender active.
func (r *runCall) join() error {
	r.ioMu.Lock()
	defer r.ioMu.Unlock()
	if r.over {
		return errOver
	}
	r.senders++
	return nil
}

// leave ends or suspends an active sender.
func (r *runCall) leave() {
	r.ioMu.Lock()
	defer r.ioMu.Unlock()
	if r.senders--; r.senders == 0 {
		r.idle.Broadcast()
	}
}

// sender runs f as an active sender. A failed send needs no handling: receiving
// fails too and says why.
func (r *runCall) sender(f func() error) {
	if r.join() != nil {
		return
	}
	go func() {
		if err := f(); !errors.Is(err, errOver) {
			r.leave()
		}
	}()
}

func (r *runCall) send(f *pb.RunIn) error {
	r.sendMu.Lock()
	defer r.sendMu.Unlock()
	return r.stream.Send(f)
}

// sendAll starts sending content.
func (r *runCall) sendAll() {
	r.sender(func() error {
		if err := r.sendHeld(); err != nil {
			return err
		}
		if r.spec.Stdin {
			r.sender(r.sendStdin)
		}
		return r.sendChunked()
	})
}

// sendHeld sends what the plugin holds before the run begins.
func (r *runCall) sendHeld() error {
	if r.attached {
		return nil
	}
	if err := sendPieces(r.spec.Program.Source, func(_ int, p []byte, last bool) error {
		return r.send(&pb.RunIn{Frame: &pb.RunIn_Program{Program: &pb.ProgramChunk{Data: p, Last: last}}})
	}); err != nil {
		return err
	}
	for i, in := range r.spec.Inputs {
		if in.Inline == nil {
			continue
		}
		if err := sendPieces(in.Inline, func(_ int, p []byte, last bool) error { return r.sendInput(i, p, last, "") }); err != nil {
			return err
		}
	}
	return nil
}

func (r *runCall) sendInput(i int, p []byte, last bool, failure string) error {
	return r.send(&pb.RunIn{Frame: &pb.RunIn_Input{
		Input: &pb.InputChunk{Index: int32(i), Data: p, Last: last, Error: failure},
	}})
}

// sendChunked sends what the plugin reads as a stream.
func (r *runCall) sendChunked() error {
	for i, in := range r.spec.Inputs {
		if !in.Chunked {
			continue
		}
		content, err := r.io.Input(i)
		if err != nil {
			err = sourceError{err}
		} else {
			err = r.sendStream(content, r.inputs, func(p []byte, last bool) error { return r.sendInput(i, p, last, "") })
		}
		var failed sourceError
		switch {
		case errors.As(err, &failed):
			r.ioMu.Lock()
			r.readErr = failed.err
			r.ioMu.Unlock()
			if err := r.sendInput(i, nil, true, "the host could not read this input"); err != nil {
				return err
			}
		case err != nil:
			return err
		}
	}
	return nil
}

func (r *runCall) sendStdin() error {
	send := func(p []byte, last bool, failure string) error {
		return r.send(&pb.RunIn{Frame: &pb.RunIn_Stdin{Stdin: &pb.StdinChunk{Data: p, Last: last, Error: failure}}})
	}
	content := r.io.Stdin()
	if content == nil {
		content = eof{}
	}
	err := r.sendStream(content, r.stdin, func(p []byte, last bool) error { return send(p, last, "") })
	var failed sourceError
	if errors.As(err, &failed) {
		return send(nil, true, "the host could not read stdin")
	}
	return err
}

// sendStream sends content as it can be read, within credit.
func (r *runCall) sendStream(content io.Reader, c *credit, send func(p []byte, last bool) error) error {
	buf := make([]byte, chunkBytes)
	for {
		r.leave()
		n, err := content.Read(buf)
		if err := r.join(); err != nil {
			return err
		}
		for p := buf[:n]; len(p) > 0; {
			m, err := c.take(r.ctx, len(p))
			if err != nil {
				return err
			}
			if err := send(p[:m], false); err != nil {
				return err
			}
			p = p[m:]
		}
		switch {
		case err == io.EOF: // a wrapped EOF is no end of content
			return send(nil, true)
		case err != nil:
			return sourceError{err}
		}
		if err := r.ctx.Err(); err != nil {
			return err
		}
	}
}
