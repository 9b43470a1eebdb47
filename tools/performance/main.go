// Command performance writes the results of benchmarks into a document.
//
//	go test -run - -bench . ./... | performance docs/performance.md
//
// The document says what it wants to show: everything between a line that begins
// with "<!-- bench" and the next "<!-- end -->" is replaced by a table. The first is
// followed by a regular expression for full names, such as
//
//	<!-- bench ^BenchmarkRun/print/ -->
//
// which gives a row for each benchmark and a column for each unit. With a unit behind
// it, as in
//
//	<!-- bench ^BenchmarkRun/ p50-ms -->
//
// there is a column for each variant, which is the last part of a name, and one that
// says how many times the first variant's figure the last one's is. With "bench?" the
// old table stays where nothing matches: what it is about cannot be measured
// everywhere. "<!-- machine -->"
// stands for where and when all of it was measured.
//
// Input is passed through to standard output. A benchmark that failed, and a table
// that stays empty, is an error, and the document is left alone.
package main

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"time"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: performance DOCUMENT < results")
		os.Exit(2)
	}
	if err := run(os.Stdin, os.Stdout, os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "performance:", err)
		os.Exit(1)
	}
}

func run(in io.Reader, out io.Writer, path string) error {
	results, err := read(io.TeeReader(in, out))
	if err != nil {
		return err
	}
	old, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	text, err := fill(string(old), results, machine(results))
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return os.WriteFile(path, []byte(text), 0o644)
}

// machine describes where and when this runs.
func machine(r *results) string {
	load := "unknown"
	if b, err := os.ReadFile("/proc/loadavg"); err == nil {
		load = strings.Join(strings.Fields(string(b))[:3], ", ")
	}
	commit := "unknown"
	if b, err := exec.Command("git", "rev-parse", "--short", "HEAD").Output(); err == nil {
		commit = string(bytes.TrimSpace(b))
	}
	return fmt.Sprintf("Measured %s at commit %s on %s/%s, %s, %d processors, %s, load averages %s at the end.",
		time.Now().UTC().Format("2006-01-02"), commit, runtime.GOOS, runtime.GOARCH, r.cpu, runtime.NumCPU(), runtime.Version(), load)
}
