package shell

import (
	"context"
	"os/exec"
	"testing"
	"time"

	"github.com/caisson-run/caisson/plugins/wasm/internal/interp/guest"
)

// BenchmarkScript runs a script from start to end, beside the machine's own bash.
// "spaced" leaves time to start the next worker, as most runs do; "in a row" is
// what a busy backend sees.
func BenchmarkScript(b *testing.B) {
	for name, script := range map[string]string{
		"hello":    `echo hello`,
		"pipeline": `seq 1000 | sort -rn | head -3`,
		"files":    `for i in {1..50}; do echo $i > f$i; done; cat f* | wc -l; rm f*`,
	} {
		b.Run(name+"/spaced", func(b *testing.B) {
			s := newSandbox(b, newInterpreter(b, Config{}))
			least := time.Hour
			for b.Loop() {
				b.StopTimer()
				s.in.starts.Wait()
				b.StartTimer()
				began := time.Now()
				s.bench(script)
				least = min(least, time.Since(began))
			}
			b.ReportMetric(float64(least.Microseconds()), "least-µs")
		})
		b.Run(name+"/in a row", func(b *testing.B) {
			s := newSandbox(b, newInterpreter(b, Config{}))
			for b.Loop() {
				s.bench(script)
			}
		})
		b.Run(name+"/native bash", func(b *testing.B) {
			bash, err := exec.LookPath("bash")
			if err != nil {
				b.Skip("bash is not installed")
			}
			dir, least := b.TempDir(), time.Hour
			for b.Loop() {
				cmd := exec.Command(bash, "-c", script)
				cmd.Dir = dir
				began := time.Now()
				if err := cmd.Run(); err != nil {
					b.Fatal(err)
				}
				least = min(least, time.Since(began))
			}
			b.ReportMetric(float64(least.Microseconds()), "least-µs")
		})
	}
}

func (s *sandbox) bench(script string) {
	p := guest.Program{Argv: []string{"bash", "-c", script}, Data: guest.Mount{Root: s.root, Quota: s.quota}, Tmp: guest.Mount{Root: s.tmp}}
	if o := s.run(context.Background(), p); o.Code != 0 {
		s.t.Fatalf("%+v %s", o.Result, o.stderr)
	}
}
