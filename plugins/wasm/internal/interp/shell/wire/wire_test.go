package wire

import (
	"bytes"
	"errors"
	"io"
	"reflect"
	"strings"
	"testing"
)

var (
	request = Request{Op: OpChtimes, Handle: 7, Flags: FlagRead | FlagAppend, Perm: 0o644, Size: -1, Time: 1 << 62, Path: "/mnt/data/\xff\n", Target: "é", Data: []byte{0, 1}}
	answer  = Answer{Errno: 2, Handle: 9, Size: 5, Time: -3, Entries: []Entry{{Name: "a", Mode: 1 << 31, Links: 2, Size: 3, Inode: 1 << 63, Accessed: -1, Modified: 4, Changed: 5}, {}}, Data: []byte("x")}
	job     = Job{Argv: []string{"bash", "", "\x00"}, Env: []string{"A=b"}, MemoryBytes: 1 << 40, CPUSeconds: 30, Programs: []string{"python3"}}
	start   = Start{ID: 1, Streams: StreamStdin | StreamStderr, Argv: []string{"node", "-e", "1"}, Env: []string{"PWD=/tmp"}}
	ended   = Ended{ID: 1, Code: 137, Message: "stopped"}
)

// codecs has, for each kind of message, one written down and a function that
// reads such and writes it down again.
var codecs = map[string]struct {
	message []byte
	again   func([]byte) ([]byte, any, error)
	want    any
}{
	"request": {request.Append(nil), func(b []byte) ([]byte, any, error) { v, err := ParseRequest(b); return v.Append(nil), v, err }, request},
	"answer":  {answer.Append(nil), func(b []byte) ([]byte, any, error) { v, err := ParseAnswer(b); return v.Append(nil), v, err }, answer},
	"job":     {job.Append(nil), func(b []byte) ([]byte, any, error) { v, err := ParseJob(b); return v.Append(nil), v, err }, job},
	"start":   {start.Append(nil), func(b []byte) ([]byte, any, error) { v, err := ParseStart(b); return v.Append(nil), v, err }, start},
	"ended":   {ended.Append(nil), func(b []byte) ([]byte, any, error) { v, err := ParseEnded(b); return v.Append(nil), v, err }, ended},
}

func TestMessages(t *testing.T) {
	for name, c := range codecs {
		_, got, err := c.again(c.message)
		if err != nil || !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: got %+v, %v", name, got, err)
		}
		for n := range len(c.message) {
			if _, _, err := c.again(c.message[:n]); !errors.Is(err, ErrMalformed) {
				t.Errorf("%s: %d of %d bytes: %v", name, n, len(c.message), err)
			}
		}
		if _, _, err := c.again(append(bytes.Clone(c.message), 0)); !errors.Is(err, ErrMalformed) {
			t.Errorf("%s: with a byte more: %v", name, err)
		}
	}
	for _, q := range []Request{{}, {Op: opEnd}, {Op: OpWrite, Data: make([]byte, MaxData+1)}} {
		if _, err := ParseRequest(q.Append(nil)); !errors.Is(err, ErrMalformed) {
			t.Errorf("request %d: %v", q.Op, err)
		}
	}
	if _, err := ParseStart((&Start{Streams: 8}).Append(nil)); !errors.Is(err, ErrMalformed) {
		t.Errorf("unknown stream: %v", err)
	}
}

func TestFrames(t *testing.T) {
	var b bytes.Buffer
	for _, m := range []string{"", "a", strings.Repeat("x", 1000)} {
		if err := WriteFrame(&b, []byte(m)); err != nil {
			t.Fatal(err)
		}
	}
	for _, m := range []string{"", "a", strings.Repeat("x", 1000)} {
		if got, err := ReadFrame(&b, 1000); err != nil || string(got) != m {
			t.Errorf("got %q, %v", got, err)
		}
	}
	if _, err := ReadFrame(&b, 1000); !errors.Is(err, io.EOF) {
		t.Errorf("at the end: %v", err)
	}
	for name, in := range map[string]string{"short": "\x05\x00\x00\x00ab", "long": "\xff\xff\xff\xff", "head": "\x01"} {
		if _, err := ReadFrame(strings.NewReader(in), 1000); err == nil || errors.Is(err, io.EOF) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := WriteFrame(&b, make([]byte, MaxFrame+1)); err == nil {
		t.Error("a frame that nobody would read was written")
	}
}

// FuzzMessages reads any bytes as each kind of message. What is accepted is
// written down as it was read.
func FuzzMessages(f *testing.F) {
	for _, c := range codecs {
		f.Add(c.message)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		for name, c := range codecs {
			if again, _, err := c.again(b); err == nil && !bytes.Equal(again, b) {
				t.Errorf("%s: %x became %x", name, b, again)
			}
		}
	})
}
