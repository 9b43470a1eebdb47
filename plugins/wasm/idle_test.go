package main

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/caisson-run/caisson/runtimes/process"
	"github.com/caisson-run/caisson/sdk/backend"
)

// resident is the memory of the plugin in bytes.
func resident(b testing.TB, p *process.Process) int64 {
	b.Helper()
	return residentOf(b, fmt.Sprint(p.PID()))
}

// residentOf is the memory of the process that has this name below /proc.
func residentOf(b testing.TB, process string) int64 {
	b.Helper()
	statm, err := os.ReadFile("/proc/" + process + "/statm")
	if err != nil {
		b.Skip("the system does not tell")
	}
	var size, pages int64
	if _, err := fmt.Sscan(string(statm), &size, &pages); err != nil {
		b.Fatal(err)
	}
	return pages * int64(os.Getpagesize())
}

// BenchmarkIdleSandboxes leaves ten thousand sandboxes with a file each to a plugin
// and reports how much its process has grown, and how long it takes to list them all
// and to start another plugin beside them.
//
//	go test -run - -bench IdleSandboxes -benchtime 1x ./plugins/wasm
func BenchmarkIdleSandboxes(b *testing.B) {
	const sandboxes = 10_000
	dir := b.TempDir()
	p := startIn(b, dir)
	make := func(i int) {
		id := fmt.Sprint("s", i)
		sb, err := p.Backend().Create(b.Context(), backend.CreateSpec{
			Config: "c", Session: id,
			Metadata: backend.Metadata{Deployment: "d", Config: "c", Session: id, Tenant: "acme", User: "u", Origin: "exec"},
		})
		if err == nil {
			_, err = p.Backend().WriteFile(b.Context(), sb.Ref, data("f"), backend.WriteOptions{}, strings.NewReader("content"))
		}
		if err != nil {
			b.Fatal(err)
		}
	}
	for i := range 500 { // the ones used last are kept open; buffers have their size
		make(i)
	}
	before := resident(b, p)
	for i := 500; i < sandboxes; i++ {
		make(i)
	}
	grown := resident(b, p) - before
	if grown > 64<<20 {
		b.Errorf("the plugin has grown by %d MiB", grown>>20)
	}
	b.Run("list", func(b *testing.B) {
		for b.Loop() {
			list, err := p.Backend().List(b.Context(), backend.ListFilter{Config: "c"})
			if err != nil || len(list) != sandboxes {
				b.Fatalf("%d are listed, %v", len(list), err)
			}
		}
		b.ReportMetric(float64(grown)/sandboxes, "B/sandbox")
		b.ReportMetric(float64(grown)/(1<<20), "MiB")
	})
	b.Run("start", func(b *testing.B) {
		for b.Loop() {
			if err := startIn(b, dir).Stop(b.Context()); err != nil {
				b.Fatal(err)
			}
		}
	})
}
