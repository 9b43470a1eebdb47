package typescript

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"runtime/debug"
)

// HelperArg is the one argument with which a Pool starts this program again.
// The program must call Serve then, with standard input and output.
const HelperArg = "transform-typescript"

// maxStackBytes limits a helper's stack; its memory has maxMemoryBytes.
const maxStackBytes = 64 << 20

// request is what a helper is asked.
type request struct {
	File   string `json:"file"`
	Source string `json:"source"`
}

// Serve answers requests until in ends, which is when whoever started the
// helper is gone or wants it gone; a transform that is under way is abandoned.
// It limits the memory of the whole process.
func Serve(in io.Reader, out io.Writer) error {
	debug.SetMaxStack(maxStackBytes)
	debug.SetMemoryLimit(maxMemoryBytes / 4 * 3)
	if err := limitMemory(maxMemoryBytes); err != nil {
		return fmt.Errorf("typescript helper: limit memory: %w", err)
	}
	requests := make(chan request)
	ended := make(chan error, 1)
	go func() {
		dec := json.NewDecoder(in)
		for {
			var req request
			if err := dec.Decode(&req); err != nil {
				ended <- err
				return
			}
			requests <- req
		}
	}()
	enc := json.NewEncoder(out)
	answered := make(chan error, 1)
	for {
		select {
		case req := <-requests:
			go func() { answered <- enc.Encode(transform(req.File, req.Source)) }()
		case err := <-answered:
			if err != nil {
				return fmt.Errorf("typescript helper: answer: %w", err)
			}
		case err := <-ended:
			if errors.Is(err, io.EOF) {
				return nil
			}
			return fmt.Errorf("typescript helper: read request: %w", err)
		}
	}
}
