package policy

import (
	"errors"
	"strconv"
	"unicode"

	"github.com/caisson-run/caisson/sdk/guest/abi"
)

const (
	// MaxRemarks is how many remarks a policy may make on one run.
	MaxRemarks = 8
	// MaxRemarksBytes bounds encoded remarks.
	MaxRemarksBytes = 16 << 10
	// MaxOutcomeText is how many bytes of each stream an Outcome carries: the head.
	MaxOutcomeText = 64 << 10
)

// Outcome is what became of a run that a policy chain let pass. A policy sees it
// when its manifest lists "result" under "hooks". It receives Stdout and Stderr only
// when the manifest lists "output" under "needs", Changed only with "files".
type Outcome struct {
	// Request is the run as it was asked for, with the limits that were in force; of
	// it the policy is shown what its manifest needs.
	Request Request `json:"request"`
	// Stop is why the program ended: "exit", "timeout", "cpu", "memory", "disk",
	// "output", "canceled" or "lost".
	Stop string `json:"stop"`
	// ExitCode is the exit status: 128+n for signal n, -1 when the program did not
	// end by itself.
	ExitCode int64 `json:"exit_code"`
	// Signal names the signal that ended the program, for example "SIGKILL".
	Signal string `json:"signal,omitempty"`
	// WallMS and CPUMS are milliseconds, PeakMemoryBytes the most memory it had; 0
	// when unknown.
	WallMS          int64 `json:"wall_ms,omitempty"`
	CPUMS           int64 `json:"cpu_ms,omitempty"`
	PeakMemoryBytes int64 `json:"peak_memory_bytes,omitempty"`
	// StdoutBytes and StderrBytes count what the program wrote, kept or not.
	StdoutBytes int64 `json:"stdout_bytes"`
	StderrBytes int64 `json:"stderr_bytes"`
	// Stdout and Stderr are the first MaxOutcomeText bytes of what was kept, as valid
	// UTF-8.
	Stdout string `json:"stdout,omitempty"`
	Stderr string `json:"stderr,omitempty"`
	// Changed are the files that the run made or changed.
	Changed []File `json:"changed,omitempty"`
}

// Remark is something that a policy tells the caller beside the reply.
type Remark struct {
	// Code is a stable machine-readable word, for example "suspicious_output".
	Code string `json:"code,omitempty"`
	// Reason is one sentence for the caller, at most MaxReasonBytes and without
	// control characters.
	Reason string `json:"reason"`
}

// Remarks are a policy's answer to an Outcome. It can add to a reply and change
// nothing of it: the run is over and paid for. An unknown member makes the answer
// invalid, and an invalid answer is dropped.
type Remarks struct {
	Warnings []Remark `json:"warnings,omitempty"`
}

// Validate checks what a host demands of remarks.
func (m *Remarks) Validate() error {
	if len(m.Warnings) > MaxRemarks {
		return errors.New("warnings: are more than " + strconv.Itoa(MaxRemarks))
	}
	for i := range m.Warnings {
		w := &m.Warnings[i]
		err := checkReason(w.Reason)
		if err == nil && w.Reason == "" {
			err = errors.New("reason: is required")
		}
		if err == nil {
			err = checkCode(w.Code)
		}
		if err != nil {
			return errors.New("warnings[" + strconv.Itoa(i) + "]." + err.Error())
		}
	}
	return nil
}

func checkReason(s string) error {
	if len(s) > MaxReasonBytes {
		return errors.New("reason: is longer than " + strconv.Itoa(MaxReasonBytes) + " bytes")
	}
	for _, c := range s {
		if unicode.IsControl(c) {
			return errors.New("reason: holds a control character")
		}
	}
	return nil
}

func checkCode(s string) error {
	if s != "" && !abi.ValidCode(s) {
		return errors.New("code: want a lower-case letter, then at most 63 of a-z, 0-9 and _")
	}
	return nil
}
