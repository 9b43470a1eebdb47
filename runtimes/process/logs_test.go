package process

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
)

func TestParse(t *testing.T) {
	for _, c := range []struct{ name, line, want string }{
		{"hclog", `{"@level":"warn","@message":"disk is full","@timestamp":"x","@module":"m","free":0}`, "[WARN]  disk is full: module=m free=0\n"},
		{"slog", `{"time":"2026-01-01T00:00:00Z","level":"ERROR","msg":"no","path":"/x"}`, "[ERROR] no: path=/x\n"},
		{"slog between levels", `{"level":"INFO+2","msg":"notice"}`, "[INFO]  notice\n"},
		{"slog debug", `{"level":"DEBUG-4","msg":"trace"}`, "[DEBUG] trace\n"},
		{"unknown level", `{"level":"loud","msg":"x"}`, "[INFO]  x\n"},
		{"types that surprise", `{"@level":7,"@message":["x"],"msg":"text"}`, "[INFO]  text: level=7 message=[x]\n"},
		{"other JSON", `{"event":"x"}`, "[INFO]  {\"event\":\"x\"}\n"},
		{"no object", `["x"]`, "[INFO]  [\"x\"]\n"},
		{"half an object", `{"msg":`, "[INFO]  {\"msg\":\n"},
		{"text", "plain", "[INFO]  plain\n"},
		{"text with a level", "[ERROR] bad", "[ERROR] [ERROR] bad\n"},
		{"text in brackets", "[x] y", "[INFO]  [x] y\n"},
		{"terminal codes", "\x1b[31mred\x07", "[INFO]  \uFFFD[31mred\uFFFD\n"},
		{"a line in a message", `{"level":"info","msg":"a\n2026 [ERROR] forged"}`, "[INFO]  a\uFFFD2026 [ERROR] forged\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var buf bytes.Buffer
			log := hclog.New(&hclog.LoggerOptions{Output: &buf, Level: hclog.Trace, DisableTime: true})
			new(parser).emit(log, c.line)
			if got := buf.String(); got != c.want {
				t.Errorf("logged %q, want %q", got, c.want)
			}
		})
	}
}

func TestParseBelowLevel(t *testing.T) {
	var buf bytes.Buffer
	log := hclog.New(&hclog.LoggerOptions{Output: &buf, Level: hclog.Warn})
	var p parser
	for _, line := range []string{`{"level":"info","msg":"x"}`, "text", "[DEBUG] x"} {
		p.emit(log, line)
	}
	if buf.Len() > 0 {
		t.Errorf("logged %q", buf.String())
	}
}

func TestCrashTraceIsAnError(t *testing.T) {
	var buf bytes.Buffer
	log := hclog.New(&hclog.LoggerOptions{Output: &buf, Level: hclog.Error, DisableTime: true})
	var p parser
	for _, line := range []string{"before", "panic: boom", "", "goroutine 1 [running]:", `{"level":"info","msg":"after"}`, "plain again"} {
		p.emit(log, line)
	}
	if got := strings.Count(buf.String(), "[ERROR]"); got != 3 {
		t.Errorf("%d error lines:\n%s", got, buf.String())
	}
}

// The budget of lines and of bytes, with a clock of its own.
func TestBudget(t *testing.T) {
	var buf bytes.Buffer
	b := newBridge(hclog.New(&hclog.LoggerOptions{Output: &buf}))
	now := time.Unix(1_000_000, 0)
	b.now = func() time.Time { return now }
	for i := range 2 * linesBurst {
		b.line(fmt.Append(nil, "line ", i))
	}
	if b.droppedTotal() != linesBurst {
		t.Errorf("%d dropped, want %d", b.droppedTotal(), linesBurst)
	}
	now = now.Add(time.Second)
	b.line([]byte("later"))
	if n := strings.Count(buf.String(), fmt.Sprintf("dropped=%d", linesBurst)); n != 1 {
		t.Errorf("%d summaries", n)
	}
	if !strings.HasSuffix(buf.String(), "later\n") {
		t.Error("the budget does not come back")
	}
	if lines := b.lastLines(); len(lines) != keptLines || lines[0] != fmt.Sprint("line ", 2*linesBurst-keptLines+1) || lines[keptLines-1] != "later" {
		t.Errorf("kept %d lines from %q to %q", len(lines), lines[0], lines[len(lines)-1])
	}

	b = newBridge(hclog.New(&hclog.LoggerOptions{Output: &buf}))
	b.now = func() time.Time { return now }
	for range 100 {
		b.line(bytes.Repeat([]byte("x"), maxLine))
	}
	if b.droppedTotal() != 100-bytesBurst/maxLine {
		t.Errorf("%d long lines dropped", b.droppedTotal())
	}
}

func TestSplitter(t *testing.T) {
	var got []string
	s := newSplitter(func(l []byte) { got = append(got, string(l)) })
	for _, piece := range []string{"on", "e\r\ntwo\n\n", strings.Repeat("x", 3*maxLine), "\nthree"} {
		s.Write([]byte(piece))
	}
	s.Close()
	want := []string{"one", "two", strings.Repeat("x", maxLine) + "… (line cut)", "three"}
	if strings.Join(got, "|") != strings.Join(want, "|") {
		t.Errorf("got %d lines, want %d", len(got), len(want))
	}
	if cap(s.buf) > 2*maxLine {
		t.Errorf("it holds %d bytes of a line", cap(s.buf))
	}
}

func FuzzHandshake(f *testing.F) {
	for _, seed := range []string{
		"1|1|unix|/tmp/x|grpc|", "1|1|unix|/tmp/x|grpc|\n", "x\n1|1|unix|/a|grpc\n", "\x00\xff|", "99999999999|1|unix|a|grpc|\n", strings.Repeat("1|", 100),
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, out []byte) {
		h := newHandshake(func(network, address string) error {
			if network != "unix" || address != "/sock" {
				return fmt.Errorf("no")
			}
			return nil
		}, newBridge(hclog.NewNullLogger()))
		read := make(chan string)
		go func() {
			b := make([]byte, 1<<20)
			n, _ := h.reader().Read(b)
			read <- string(b[:n])
		}()
		h.Write(out)
		h.Close()
		line := <-read
		found, _, err := h.outcome()
		if found != (line != "") || found && (err != nil || h.address() != "/sock") {
			t.Errorf("found %v, line %q, error %v", found, line, err)
		}
	})
}

func FuzzLogLine(f *testing.F) {
	f.Add(`{"@level":"info","@message":"x","a":{"b":[1]}}`)
	f.Add("[WARN] x")
	f.Add(`{"@message":1}`)
	f.Fuzz(func(t *testing.T, line string) {
		var buf bytes.Buffer
		log := hclog.New(&hclog.LoggerOptions{Output: &buf, Level: hclog.Trace, JSONFormat: true})
		new(parser).emit(log, line)
		_ = plain(line)
		if strings.Count(buf.String(), "\n") != 1 {
			t.Errorf("one line became %q", buf.String())
		}
	})
}

func TestNoiseBeforeTheHandshake(t *testing.T) {
	p, logs := begin(t, "noise")
	if _, err := p.Backend().Info(t.Context()); err != nil {
		t.Fatal(err)
	}
	_ = p.Stop(t.Context())
	if !strings.Contains(logs.String(), "[stdout] initialising some library") {
		t.Errorf("log:\n%s", logs)
	}
}

func TestPrintsGoToTheLog(t *testing.T) {
	p, logs := begin(t, "serve:print")
	_ = p.Stop(t.Context())
	for _, want := range []string{
		"[INFO]  test: [stdout] stray words", "[WARN]  test: [WARN] plain words", "stray child", "| from a child",
	} {
		if !strings.Contains(logs.String(), want) {
			t.Errorf("log lacks %q:\n%s", want, logs)
		}
	}
}

func TestLogFloodIsBounded(t *testing.T) {
	p, logs := begin(t, "serve:")
	if _, err := execute(t, p, "flood"); err != nil {
		t.Fatal(err)
	}
	_ = p.Stop(t.Context())
	lines := strings.Count(logs.String(), "flood: ")
	if p.Dropped() == 0 || lines > 100_000/4 {
		t.Errorf("%d lines logged, %d dropped", lines, p.Dropped())
	}
	if !strings.Contains(logs.String(), "lines were dropped") {
		t.Error("the log does not say that lines were dropped")
	}
	_, kept, _ := p.Exit()
	if len(kept) != keptLines || !strings.Contains(strings.Join(kept, "\n"), `"line":99999`) {
		t.Errorf("%d lines kept, the last is %q", len(kept), kept[len(kept)-1])
	}
}
