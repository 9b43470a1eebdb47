package agentwire

import (
	"bytes"
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/caisson-run/caisson/sdk/backend/files"
)

// samples are one of each message with every member set.
func samples() []Message {
	when := time.Date(2001, 2, 3, 4, 5, 6, 789, time.UTC)
	entry := files.Entry{Path: "/mnt/data/a\xff\n", Type: files.EntryFile, Size: 1 << 40, Modified: when, Mode: 0o644, SHA256: "ab"}
	return []Message{
		&Empty{},
		&Name{"x"},
		&Number{-5},
		&Names{[]string{"", "a\x00b", "ü"}},
		&Retire{true},
		&Listen{"/s", 1000},
		&Status{when, 20000, 1000, 0xe0, 1<<63 + 1, true, 2, 1 << 30, 512, 3, time.Minute, 10, 20, 2},
		&Path{"/mnt/data"},
		&Listing{[]files.Entry{entry, {Path: "/x"}}, true},
		&Walk{"/mnt/data", 1, 2, true, 3, []string{"*.pyc"}},
		&Content{entry, true, []byte("data")},
		&Write{"/mnt/data/f", 0o600, 5, true, true, []byte("data")},
		&ContentEnd{true},
		&Terminal{7, []string{"sh", "-l"}, "/mnt/data", []Pair{{"A", "b"}}, Size{80, 24}},
		&Size{1, 2},
		&Watch{"/mnt/data", true},
		&Event{"/mnt/data/f", "write"},
		&Run{
			"id", Detached, "main.py", []byte("print()"), true,
			[]Input{{"/mnt/data/in", 0o644, true, "ab", true, []byte{}}},
			[]Step{{[]string{"gcc", "{dir}/x"}, []string{"", "\xff"}}},
			[]Pair{{"A", ""}},
			"/mnt/data", true,
			Limits{1, 2, 3, 4, 5, 6, 7, 8},
			files.CollectSpec{Root: "/mnt/data", MaxFiles: 1, MaxFileBytes: 2, MaxDepth: 3, Exclude: []string{"x"}, Skip: true},
			time.Hour, time.Second, true, time.Minute,
		},
		&Call{"1", "weather", 1 << 20, true},
		&Reply{"1", 1 << 20, true},
		&InputEnd{0o755, Fault{"unavailable", "file", "gone"}},
		&Attach{"id", 1 << 33, true, time.Second},
		&Exit{"exit", -1, "SIGKILL", 2, "why", 1, 2, true, true, 3, true, []string{"/mnt/data/in"}, 4, 5, 6, 7, 8},
		&Fault{"not_found", "file", "no such file"},
	}
}

func TestMessages(t *testing.T) {
	for _, want := range samples() {
		b := Encode(want)
		got := reflect.New(reflect.TypeOf(want).Elem()).Interface().(Message)
		if err := Decode(b, got); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%#v came as %#v: %v", want, got, err)
		}
		for n := range b {
			if err := Decode(b[:n], got); err == nil {
				t.Errorf("the first %d of %d bytes of %T are one", n, len(b), want)
			}
		}
		if err := Decode(append(bytes.Clone(b), 0), got); !errors.Is(err, ErrProtocol) {
			t.Errorf("%T with a byte too much: %v", want, err)
		}
		checkSet(t, reflect.ValueOf(want).Elem())
	}
}

// checkSet fails where a sample leaves a member at zero: it would not be tested.
func checkSet(t *testing.T, v reflect.Value) {
	if v.Kind() != reflect.Struct || v.Type() == reflect.TypeFor[time.Time]() {
		return
	}
	for i := range v.NumField() {
		if v.Field(i).IsZero() {
			t.Errorf("the sample of %s has no %s", v.Type(), v.Type().Field(i).Name)
		}
		checkSet(t, v.Field(i))
	}
}

func TestAnswers(t *testing.T) {
	var n Number
	if err := ReadAnswer(Answer(&Number{3}, nil), &n); err != nil || n.N != 3 {
		t.Errorf("%+v, %v", n, err)
	}
	var f *Fault
	if err := ReadAnswer(Answer(nil, &Fault{"conflict", "file", strings.Repeat("x", 1<<20)}), &n); !errors.As(err, &f) || f.Kind != "conflict" || len(f.Text) != 4096 {
		t.Errorf("%v", err)
	}
	if err := ReadAnswer(Answer(&Names{[]string{strings.Repeat("x", MaxEnd)}}, nil), &Names{}); !errors.As(err, &f) || f.Kind != "internal" {
		t.Errorf("an answer that is too long: %v", err)
	}
	for _, b := range [][]byte{nil, {2}, {answerFault}, {answerOK}} {
		if err := ReadAnswer(b, &n); !errors.Is(err, ErrProtocol) {
			t.Errorf("%v: %v", b, err)
		}
	}
}

// FuzzMessages: nothing that comes makes a side panic or hold much more than came, and
// what was understood means the same when it is said again.
func FuzzMessages(f *testing.F) {
	for i, m := range samples() {
		f.Add(byte(i), Encode(m))
	}
	f.Fuzz(func(t *testing.T, which byte, b []byte) {
		all := samples()
		m := reflect.New(reflect.TypeOf(all[int(which)%len(all)]).Elem()).Interface().(Message)
		if Decode(b, m) != nil {
			return
		}
		again := reflect.New(reflect.TypeOf(m).Elem()).Interface().(Message)
		first := Encode(m)
		if err := Decode(first, again); err != nil {
			t.Fatalf("%#v: %v", m, err)
		}
		if !bytes.Equal(first, Encode(again)) {
			t.Fatalf("%#v came back as %#v", m, again)
		}
	})
}
