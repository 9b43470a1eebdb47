package embedded

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	esys "github.com/tetratelabs/wazero/experimental/sys"

	"github.com/caisson-run/caisson/plugins/wasm/internal/rootfs"
	"github.com/caisson-run/caisson/sdk/backend"
)

const secret = "the host's secret"

// everyCall makes every call that takes a path, on a path that somebody swaps. What
// is read must be from inside, every failure must be one that keeps the sandbox, and
// nothing may name a place of the host.
func everyCall(t *testing.T, b *Backend, ref backend.Ref, dir string, i int) {
	ctx := context.Background()
	p := backend.DataDir + "/p"
	check := func(op string, err error) {
		t.Helper()
		if err != nil && (backend.ProvesGone(err) || strings.Contains(err.Error(), dir) || strings.Contains(err.Error(), secret)) {
			t.Errorf("%s: %v", op, err)
		}
	}
	for _, f := range []string{p + "/f", backend.DataDir + "/q/f"} {
		_, err := b.Stat(ctx, ref, f)
		check("Stat", err)
		r, _, err := b.ReadFile(ctx, ref, f)
		check("ReadFile", err)
		if err != nil {
			continue
		}
		got, err := io.ReadAll(r)
		if r.Close(); err != nil || strings.Contains(string(got), secret) {
			t.Errorf("ReadFile got %q, %v", got, err)
		}
	}
	_, err := b.WriteFile(ctx, ref, p+"/w", backend.WriteOptions{}, strings.NewReader("written"))
	check("WriteFile", err)
	_, err = b.WriteFile(ctx, ref, p+"/f", backend.WriteOptions{Exclusive: i%2 == 0}, strings.NewReader("inside"))
	check("WriteFile", err)
	check("MakeDir", b.MakeDir(ctx, ref, fmt.Sprintf("%s/d%d/e", p, i%3)))
	_, err = b.ListDir(ctx, ref, p)
	check("ListDir", err)
	w, err := b.Walk(ctx, backend.WalkRequest{Ref: ref, Digests: true})
	check("Walk", err)
	for _, e := range w.Entries {
		if strings.HasSuffix(e.Path, "/hostfile") {
			t.Errorf("Walk went outside: %s", e.Path)
		}
	}
	check("Remove", b.Remove(ctx, ref, fmt.Sprintf("%s/d%d", p, i%3)))
	check("Remove", b.Remove(ctx, ref, p+"/w"))
	sb, err := b.store.Get(ref.Config, ref.ID)
	if err != nil {
		t.Error(err)
		return
	}
	run := &run{b: b, sb: sb}
	before := run.scan(ctx, nil)
	if before == nil {
		t.Error("the tree could not be scanned")
	}
	sb.Release()
	if i%10 == 0 {
		s, err := b.Snapshot(ctx, ref, "", nil)
		check("Snapshot", err)
		if err == nil {
			check("DeleteSnapshot", b.DeleteSnapshot(ctx, ref.Config, s.ID))
		}
	}
}

// outside makes a directory of the host that everything is pointed at.
func outside(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for _, name := range []string{"f", "hostfile"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(secret), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func untouched(t *testing.T, dir string) {
	t.Helper()
	list, err := os.ReadDir(dir)
	if err != nil || len(list) != 2 {
		t.Errorf("outside there are %v, %v", list, err)
	}
	for _, name := range []string{"f", "hostfile"} {
		got, err := os.ReadFile(filepath.Join(dir, name))
		info, _ := os.Stat(filepath.Join(dir, name))
		if err != nil || string(got) != secret || info.Mode().Perm() != 0o644 {
			t.Errorf("outside, %s is %q, %v, %v", name, got, info.Mode(), err)
		}
	}
}

// openDescriptors counts what is open, but for sandboxes that are made ahead: those
// come and go by themselves.
func openDescriptors(t *testing.T) int {
	t.Helper()
	list, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Skip("the system does not tell what is open")
	}
	n := 0
	for _, e := range list {
		if name, _ := os.Readlink("/proc/self/fd/" + e.Name()); !strings.Contains(name, "/ready/") {
			n++
		}
	}
	return n
}

// closed wants no more descriptors than before. Those of sandboxes that are made or
// taken away beside the calls may be closed a little later.
func closed(t *testing.T, before int) {
	t.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	end := time.After(30 * time.Second)
	for {
		after := openDescriptors(t)
		if after <= before {
			return
		}
		select {
		case <-tick.C:
		case <-end:
			t.Errorf("%d descriptors are open, %d before", after, before)
			return
		}
	}
}

// hammer runs the calls from some goroutines while attack goes on.
func hammer(t *testing.T, rounds int, attack func(i int), call func(i int)) {
	t.Helper()
	stop := make(chan struct{})
	var attacker, users sync.WaitGroup
	attacker.Go(func() {
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			default:
				attack(i)
			}
		}
	})
	for range 3 {
		users.Go(func() {
			for i := range rounds {
				call(i)
			}
		})
	}
	users.Wait()
	close(stop)
	attacker.Wait()
}

// The strongest attacker: another process of the host swaps a directory for a link
// out of the sandbox while every call goes through it.
func TestSwapRace(t *testing.T) {
	b, ref, dir := newStill(t, rootfs.DefaultLimits())
	out := outside(t)
	data := filepath.Join(dir, "data")
	for _, d := range []string{"p", "q"} {
		if err := os.Mkdir(filepath.Join(data, d), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(data, d, "f"), []byte("inside"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(out, filepath.Join(data, "link")); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(filepath.Join(out, "f"), filepath.Join(data, "filelink")); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mkfifo(filepath.Join(data, "fifo"), 0o600); err != nil {
		t.Fatal(err)
	}
	everyCall(t, b, ref, dir, 0)
	before := openDescriptors(t)
	swap := func(a, c string) {
		a, c = filepath.Join(data, a), filepath.Join(data, c)
		_ = os.Rename(a, a+"~")
		_ = os.Rename(c, a)
		_ = os.Rename(a+"~", c)
	}
	hammer(t, 60, func(i int) {
		// Never through p: that would follow the link itself.
		swap("p", "link")
		swap("q/f", "filelink")
		swap("q/f", "fifo")
	}, func(i int) { everyCall(t, b, ref, dir, i) })
	untouched(t, out)
	closed(t, before)
	if err := b.Delete(t.Context(), ref); err != nil {
		t.Fatal(err)
	}
	if left, _ := os.ReadDir(filepath.Join(dir, "..", "..", "..", "trash")); len(left) > 0 {
		t.Errorf("trash holds %v", left)
	}
	untouched(t, out)
}

// The attacker who counts: a program swaps, moves, links and removes with what it is
// given, while callers use the same files. Whatever comes of it, the account is what
// is there.
func TestProgramAgainstCallers(t *testing.T) {
	b, ref, dir := newStill(t, rootfs.Limits{Bytes: 1 << 20, Entries: 200})
	ctx := t.Context()
	sb, err := b.store.Get(ref.Config, ref.ID)
	if err != nil {
		t.Fatal(err)
	}
	defer sb.Release()
	guest := rootfs.New(sb.Data, sb.Quota, rootfs.Options{})
	guest.Mkdir("p", 0o755)
	guest.Mkdir("q", 0o755)
	guest.Mkdir("q/r", 0o755)
	// A link that leads out once it is moved up.
	guest.Symlink("../../f", "q/r/up")
	everyCall(t, b, ref, dir, 0)
	before := openDescriptors(t)
	write := func(p string, n int, more func(h esys.File)) {
		h, e := guest.OpenFile(p, esys.O_RDWR|esys.O_CREAT, 0o644)
		if e != 0 {
			return
		}
		h.Write(make([]byte, n))
		if more != nil {
			more(h)
		}
		h.Close()
	}
	hammer(t, 60, func(i int) {
		guest.Rename("p", "away")
		guest.Symlink("q", "p")
		guest.Rename("q/r/up", "p")
		guest.Rename("p", "q/r/up")
		guest.Unlink("p")
		guest.Rename("away", "p")
		write("p/f", 1000*(i%50), func(h esys.File) {
			// Replaced and removed by others meanwhile.
			guest.Link("p/f", "p/g")
			h.Truncate(int64(i % 5000))
			guest.Rename("p/g", "p/w")
			h.Write(make([]byte, 3000))
			guest.Unlink("p/f")
		})
		guest.Rename("p/w", "p/f")
		guest.Rmdir("p/d0")
	}, func(i int) { everyCall(t, b, ref, dir, i) })
	closed(t, before)
	bytes, entries := sb.Quota.Used()
	if err := sb.Quota.Measure(ctx, sb.Data); err != nil {
		t.Fatal(err)
	}
	if b, e := sb.Quota.Used(); b != bytes || e != entries {
		t.Errorf("the account says %d bytes, %d entries; there are %d and %d", bytes, entries, b, e)
	}
	for _, top := range []string{"p", "q", "away"} {
		if err := b.Remove(ctx, ref, backend.DataDir+"/"+top); err != nil {
			t.Error(err)
		}
	}
	if left, err := b.Walk(ctx, backend.WalkRequest{Ref: ref}); err != nil || len(left.Entries) > 0 {
		t.Errorf("left are %+v, %v", left, err)
	}
	if b, e := sb.Quota.Used(); b != 0 || e != 0 {
		t.Errorf("with everything removed the account says %d bytes, %d entries", b, e)
	}
}

// An upload that replaces what a program has open is not given back twice.
func TestReplacingAnOpenFileIsChargedOnce(t *testing.T) {
	b, ref, _ := newStill(t, rootfs.Limits{Bytes: 1000, Entries: 10})
	sb, err := b.store.Get(ref.Config, ref.ID)
	if err != nil {
		t.Fatal(err)
	}
	defer sb.Release()
	guest := rootfs.New(sb.Data, sb.Quota, rootfs.Options{})
	keep, _ := guest.OpenFile("keep", esys.O_WRONLY|esys.O_CREAT, 0o644)
	keep.Write(make([]byte, 400))
	keep.Close()
	for range 3 {
		h, e := guest.OpenFile("f", esys.O_WRONLY|esys.O_CREAT, 0o644)
		if e != 0 {
			t.Fatal(e)
		}
		if n, e := h.Write(make([]byte, 500)); n != 500 || e != 0 {
			t.Fatal(n, e)
		}
		if _, err := b.WriteFile(t.Context(), ref, backend.DataDir+"/f", backend.WriteOptions{}, strings.NewReader("")); err != nil {
			t.Fatal(err)
		}
		if bytes, entries := sb.Quota.Used(); bytes != 900 || entries != 2 {
			t.Errorf("while it is open: %d bytes, %d entries", bytes, entries)
		}
		h.Close()
		if bytes, entries := sb.Quota.Used(); bytes != 400 || entries != 2 {
			t.Errorf("then: %d bytes, %d entries", bytes, entries)
		}
	}
}

// What callers make is as bounded as what programs make: neither can hide from the
// other, and everything can be removed.
func TestCallersAreBoundedToo(t *testing.T) {
	b, ref, _ := newStill(t, rootfs.Limits{Depth: 8, PathBytes: 100})
	ctx := t.Context()
	deep := backend.DataDir + strings.Repeat("/d", 8)
	if err := b.MakeDir(ctx, ref, deep); err != nil {
		t.Fatal(err)
	}
	long := backend.DataDir + "/" + strings.Repeat("n", 101)
	for op, err := range map[string]error{
		"MakeDir":      b.MakeDir(ctx, ref, deep+"/d"),
		"MakeDir long": b.MakeDir(ctx, ref, long),
		"WriteFile": func() error {
			_, err := b.WriteFile(ctx, ref, deep+"/f", backend.WriteOptions{}, strings.NewReader("x"))
			return err
		}(),
		"WriteFile long": func() error {
			_, err := b.WriteFile(ctx, ref, long, backend.WriteOptions{}, strings.NewReader("x"))
			return err
		}(),
	} {
		if backend.KindOf(err) != backend.KindInvalidRequest || backend.ProvesGone(err) {
			t.Errorf("%s: %v", op, err)
		}
	}
	ended, cancel := context.WithCancel(ctx)
	cancel()
	if err := b.Remove(ended, ref, backend.DataDir+"/d"); !errors.Is(err, context.Canceled) {
		t.Errorf("Remove with an ended context: %v", err)
	}
	if err := b.Remove(ctx, ref, backend.DataDir+"/d"); err != nil {
		t.Error(err)
	}
}

// Names that are no UTF-8 cannot be told; they hide nothing else.
func TestNamesThatCannotBeTold(t *testing.T) {
	b, ref, dir := newStill(t, rootfs.DefaultLimits())
	for _, name := range []string{"bad\xff", "good", "new\nline"} {
		if err := os.WriteFile(filepath.Join(dir, "data", name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.MkdirAll(filepath.Join(dir, "data", "dir\xfe", "f"), 0o700); err != nil {
		t.Fatal(err)
	}
	list, err := b.ListDir(t.Context(), ref, backend.DataDir)
	if err != nil || len(list) != 2 {
		t.Errorf("ListDir = %+v, %v", list, err)
	}
	w, err := b.Walk(t.Context(), backend.WalkRequest{Ref: ref})
	if err != nil || len(w.Entries) != 2 {
		t.Errorf("Walk = %+v, %v", w, err)
	}
}

// A walk goes on where somebody swaps directories and links.
func TestWalkGoesOn(t *testing.T) {
	b, ref, dir := newStill(t, rootfs.DefaultLimits())
	data := filepath.Join(dir, "data")
	if err := os.MkdirAll(data+"/p/x", 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(data+"/z", []byte("last"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(outside(t), data+"/link"); err != nil {
		t.Fatal(err)
	}
	hammer(t, 100, func(int) {
		_ = os.Rename(data+"/p", data+"/q")
		_ = os.Rename(data+"/link", data+"/p")
		_ = os.Rename(data+"/p", data+"/link")
		_ = os.Rename(data+"/q", data+"/p")
	}, func(int) {
		w, err := b.Walk(context.Background(), backend.WalkRequest{Ref: ref, Digests: true})
		if err != nil || len(w.Entries) == 0 || w.Entries[len(w.Entries)-1].Path != backend.DataDir+"/z" {
			t.Errorf("Walk = %+v, %v", w, err)
		}
	})
}
