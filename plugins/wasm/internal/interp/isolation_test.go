package interp

import (
	"bytes"
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/caisson-run/caisson/plugins/wasm/internal/interp/guest"
	"github.com/caisson-run/caisson/plugins/wasm/internal/interp/region"
)

// spoilers fill memory, by every means, with what must never be seen again. Each
// %s is the marker, in hexadecimal so that it is not in the source.
var spoilers = map[string]map[string]string{
	"python3": {
		"objects":   "m = bytes.fromhex('%s')\nx = [m + str(i).encode() for i in range(20000)]",
		"much":      "m = bytes.fromhex('%s')\nx = bytearray(m * 1000000)",
		"freed":     "m = bytes.fromhex('%s')\nfor i in range(50): x = m * (1 << 14 << (i %% 4)); del x",
		"stack":     "import sys\nm = bytes.fromhex('%s')\ndef f(n): x = m + b''; return f(n - 1) if n else 0\nf(500)",
		"file":      "m = bytes.fromhex('%s')\nopen('x', 'wb').write(m * 1000)\nopen('x', 'rb').read()\nimport os; os.remove('x')",
		"killed":    "m = bytes.fromhex('%s')\nx = []\nwhile True: x.append(m * 100)",
		"exception": "m = bytes.fromhex('%s')\nraise ValueError(m * 100)",
		"aborted":   "import os\nm = bytes.fromhex('%s') * 1000\nos.abort()",
	},
	"node": {
		"objects": "const m = Buffer.from('%s', 'hex').toString('latin1'); const x = []; for (let i = 0; i < 2e4; i++) x.push(m + i)",
		"much":    "const x = Buffer.alloc(40 << 20, '%s', 'hex')",
		"killed":  "const m = Buffer.from('%s', 'hex').toString('latin1'); const x = []; for (;;) x.push(m.repeat(100) + x.length)",
	},
}

// TestNothingOfARunIsLeft fills memory with a marker in one run and looks through all
// memory of the instance that comes next, as far as any instance can grow.
func TestNothingOfARunIsLeft(t *testing.T) {
	if testing.Short() {
		t.Skip("one program at a time, for a long time")
	}
	for _, cow := range []bool{false, true} {
		e := newEngine(t, Config{Parked: -1, MaxRunning: 1})
		e.host.Choose = func(*region.Pool, *region.Image) region.Choice { return region.Choice{COW: cow} }
		for _, h := range hello {
			if !installed(h.interpreter) {
				continue
			}
			m := machineOf(t, e, h.pack)
			for name, source := range spoilers[h.interpreter] {
				t.Run(fmt.Sprintf("%s/%s/cow %v", h.interpreter, name, cow), func(t *testing.T) {
					s := newSandbox(t)
					marker := fmt.Appendf(nil, "%s-%d-marker-%s", h.interpreter, time.Now().UnixNano(), name)
					p := s.program(h.interpreter, h.file, fmt.Sprintf(source, fmt.Sprintf("%x", marker)))
					p.Env = map[string]string{"MARKER": string(marker)}
					p.Argv = append(p.Argv, string(marker))
					p.MemoryBytes = 128 << 20
					span := time.Minute // those that end by themselves do so on a busy machine too
					if name == "killed" {
						span = 2 * time.Second
					}
					ctx, cancel := context.WithTimeout(context.Background(), span)
					defer cancel()
					o := s.on(ctx, e, p)
					if o.Code != 0 && name != "killed" && name != "exception" && name != "aborted" {
						t.Fatalf("%s", short(o))
					}
					r, err := guest.New(context.Background(), p, m.ImageBytes())
					if err != nil {
						t.Fatal(err)
					}
					defer r.Close()
					inst, err := m.Take(r)
					if err != nil {
						t.Fatal(err)
					}
					defer inst.Close(context.Background())
					mem := inst.Memory()
					if _, ok := mem.Grow((128<<20 - mem.Size()) / region.PageBytes); !ok {
						t.Fatal("the memory does not grow")
					}
					all, _ := mem.Read(0, mem.Size())
					if i := bytes.Index(all, marker); i >= 0 {
						t.Errorf("found at %#x of %#x", i, len(all))
					}
					if rest := all[m.ImageBytes():]; len(bytes.TrimLeft(rest, "\x00")) != 0 {
						t.Error("what is behind the image is not zero")
					}
				})
			}
		}
	}
}
