package sandboxes

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"os"
	"sync"
)

// Agent is a program that belongs into containers of one architecture.
type Agent struct {
	// Path is the file, and SHA256 the digest that it must have, lower-case hex.
	Path, SHA256 string
}

// agentFiles reads agents once, and refuses what is not what was built.
type agentFiles struct {
	known map[string]Agent

	mu   sync.Mutex
	read map[string][]byte // by digest
}

var errAgent = errors.New("the agent's program is not the one this plugin was built with")

// find returns the digest and the program for an engine's architecture, or why there
// is none.
func (a *agentFiles) find(arch string) (digest string, program []byte, err error) {
	known, ok := a.known[goArch(arch)]
	if !ok {
		return "", nil, errors.New("no agent was built for the engine's architecture")
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if program := a.read[known.SHA256]; program != nil {
		return known.SHA256, program, nil
	}
	program, err = os.ReadFile(known.Path)
	if err != nil {
		return "", nil, errors.New("the agent's program cannot be read")
	}
	sum := sha256.Sum256(program)
	if hex.EncodeToString(sum[:]) != known.SHA256 {
		return "", nil, errAgent
	}
	if a.read == nil {
		a.read = make(map[string][]byte)
	}
	a.read[known.SHA256] = program
	return known.SHA256, program, nil
}

// goArch names an architecture as Go does. Engines say it as their kernel does.
func goArch(arch string) string {
	switch arch {
	case "x86_64", "amd64":
		return "amd64"
	case "aarch64", "arm64":
		return "arm64"
	}
	return arch
}
