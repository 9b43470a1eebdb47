//go:build dev

package quickjs
import ("testing";"os";"context";"fmt";"time";"strings";"path/filepath"
"github.com/caisson-run/caisson/plugins/wasm/internal/interp/guest"
"github.com/caisson-run/caisson/plugins/wasm/internal/packs")
func TestDev(t *testing.T) {
	f := os.Getenv("JS"); if f == "" { t.Skip() }
	src, err := os.ReadFile(f); if err != nil { t.Fatal(err) }
	w, _, err := packs.Locate("../../../packs").Read(packs.QuickJS); if err != nil { t.Fatal(err) }
	t0 := time.Now()
	q, err := New(context.Background(), w, "/tmp/caisson-test-code-0", nil); if err != nil { t.Fatal(err) }
	defer q.Close(context.Background())
	boot := time.Since(t0)
	dir, data, tmp := t.TempDir(), t.TempDir(), t.TempDir()
	name := "main.js"; if i := strings.LastIndex(f, "."); i > 0 { name = "main"+f[i:] }
	os.WriteFile(filepath.Join(dir, name), src, 0o644)
	if ex := os.Getenv("EXTRA"); ex != "" { es, _ := os.ReadDir(ex); for _, e := range es { b, _ := os.ReadFile(filepath.Join(ex, e.Name())); os.WriteFile(filepath.Join(data, e.Name()), b, 0o644) } }
	root := func(d string) *os.Root { r, _ := os.OpenRoot(d); return r }
	interp := os.Getenv("I"); if interp == "" { interp = "node" }
	p := guest.Program{Argv: append([]string{interp, "/run/caisson/"+name}, strings.Fields(os.Getenv("ARGS"))...), Data: guest.Mount{Root: root(data)}, Tmp: guest.Mount{Root: root(tmp)}, Entry: root(dir), Stdout: os.Stdout, Stderr: os.Stderr}
	if m := os.Getenv("MEM"); m != "" { fmt.Sscan(m, &p.MemoryBytes); p.MemoryBytes <<= 20 }
	if in := os.Getenv("IN"); in != "" { p.Stdin = strings.NewReader(in) }
	n := 1; if os.Getenv("N") != "" { fmt.Sscan(os.Getenv("N"), &n) }
	for range n {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	t0 = time.Now()
	r, err := guest.New(ctx, p, q.MinMemoryBytes()); if err != nil { t.Fatal(err) }
	o, err := q.Run(ctx, r); if err != nil { t.Fatal(err) }
	r.Close()
	cancel()
	fmt.Fprintf(os.Stderr, "[boot %v, kept %d, total %v code %d %s %v peak %d limited %v wall %v]\n", boot, q.image.KeptBytes(), time.Since(t0), o.Code, o.Reason, o.Err, o.PeakMemoryBytes, o.MemoryLimited, o.WallTime)
	}
}
