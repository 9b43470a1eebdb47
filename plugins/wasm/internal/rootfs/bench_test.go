package rootfs

import (
	"fmt"
	"os"
	"testing"

	esys "github.com/tetratelabs/wazero/experimental/sys"
)

// BenchmarkCreate makes files as a guest does, beside the system's own way.
func BenchmarkCreate(b *testing.B) {
	b.Run("guest", func(b *testing.B) {
		root, err := os.OpenRoot(b.TempDir())
		if err != nil {
			b.Fatal(err)
		}
		defer root.Close()
		f := New(root, NewQuota(Limits{Entries: 1 << 40}), Options{})
		b.ReportAllocs()
		for i := 0; b.Loop(); i++ {
			h, e := f.OpenFile(fmt.Sprint("f", i), esys.O_RDWR|esys.O_CREAT|esys.O_EXCL, 0o644)
			if e != 0 {
				b.Fatal(e)
			}
			h.Close()
		}
	})
	b.Run("host", func(b *testing.B) {
		dir := b.TempDir()
		b.ReportAllocs()
		for i := 0; b.Loop(); i++ {
			h, err := os.OpenFile(fmt.Sprint(dir, "/f", i), os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o644)
			if err != nil {
				b.Fatal(err)
			}
			h.Close()
		}
	})
}
