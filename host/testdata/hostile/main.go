// Command hostile is the plugin of the host's fault tests: it does to itself, and to
// whoever talks to it, what it is told. hostile.json beside it says what it is.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/hashicorp/go-hclog"

	"github.com/caisson-run/caisson/sdk/backend"
)

// nature is what the plugin is.
type nature struct {
	Name string `json:"name"`
	// Garbage is how many bytes it prints before it serves, Ends whether it does
	// nothing else.
	Garbage int  `json:"garbage"`
	Ends    bool `json:"ends"`
}

func main() {
	var n nature
	b, err := os.ReadFile(filepath.Join(filepath.Dir(os.Args[0]), "hostile.json"))
	if err == nil {
		err = json.Unmarshal(b, &n)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	line := strings.Repeat("garbage ", 12) + "\n"
	for left := n.Garbage; left > 0; left -= len(line) {
		if _, err := io.WriteString(os.Stdout, line); err != nil {
			os.Exit(3)
		}
	}
	if n.Ends {
		os.Exit(4)
	}
	backend.Serve(func(_ context.Context, log hclog.Logger) (backend.Backend, error) {
		return &hostile{nature: n, log: log}, nil
	})
}

// hostile is the backend. What the tests do not call is left to panic.
type hostile struct {
	backend.Backend
	nature
	log hclog.Logger
}

func (h *hostile) Info(context.Context) (backend.Info, error) {
	return backend.Info{Name: h.Name, Version: "1.0.0"}, nil
}

func (h *hostile) Health(context.Context) (backend.Health, error) {
	return backend.Health{Ready: true}, nil
}

func (h *hostile) OpenConfig(context.Context, string, json.RawMessage) error { return nil }

func (h *hostile) Probe(context.Context, json.RawMessage) (backend.ProbeReport, error) {
	return backend.ProbeReport{OK: true}, nil
}

// Get does what the sandbox's name says.
func (h *hostile) Get(ctx context.Context, ref backend.Ref) (backend.Sandbox, error) {
	switch ref.ID {
	case "kill":
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
		<-ctx.Done()
	case "stop":
		_ = syscall.Kill(os.Getpid(), syscall.SIGSTOP)
		<-ctx.Done() // it reaches one thread after the other
	case "panic":
		panic("in a handler")
	case "panic-beside":
		go func() { panic("in a goroutine of its own") }()
		<-ctx.Done()
	case "exit":
		fmt.Fprintln(os.Stderr, "it had enough")
		os.Exit(7)
	case "flood":
		for i := range 100_000 {
			h.log.Info("flood", "line", i)
		}
	case "shout": // past the logger, without a line end
		chunk := strings.Repeat("x", 1<<20)
		for range 64 {
			fmt.Fprint(os.Stdout, chunk)
		}
	}
	return backend.Sandbox{Ref: ref, State: backend.StateRunning}, nil
}
