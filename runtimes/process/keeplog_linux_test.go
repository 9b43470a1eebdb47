package process

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"testing"
)

// collected is what was passed on.
type collected struct {
	bytes.Buffer
	done sync.WaitGroup
}

func (c *collected) Close() error { c.done.Done(); return nil }

// Nothing is lost of what a process writes while its log is given back, and what was
// read does not stay on the disk.
func TestKeptLogLosesNothing(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	l, err := openKeptLog(path)
	if err != nil {
		t.Fatal(err)
	}
	defer l.close()
	dead, to := make(chan struct{}), &collected{}
	to.done.Add(1)
	go l.follow(dead, to)

	f, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	const lines = 300_000
	var want bytes.Buffer
	for i := range lines {
		line := strconv.AppendInt(nil, int64(i), 10)
		line = append(append(line, bytes.Repeat([]byte{'x'}, 40)...), '\n')
		want.Write(line)
		if _, err := f.Write(line); err != nil {
			t.Fatal(err)
		}
	}
	close(dead)
	to.done.Wait()
	if !bytes.Equal(to.Bytes(), want.Bytes()) {
		t.Fatalf("%d bytes were read, %d written", to.Len(), want.Len())
	}
	info, err := f.Stat()
	if err != nil {
		t.Fatal(err)
	}
	if st := info.Sys().(*syscall.Stat_t); st.Blocks*512 > keptLogSize+keptLogTail {
		t.Errorf("%d bytes are stored of %d", st.Blocks*512, info.Size())
	}
	next, err := openKeptLog(path)
	if err != nil {
		t.Fatal(err)
	}
	defer next.close()
	var tail bytes.Buffer
	next.read(&tail)
	if !bytes.HasSuffix(want.Bytes(), tail.Bytes()) || tail.Len() != keptLogTail {
		t.Errorf("the next host reads %d bytes that are not the end", tail.Len())
	}
}
