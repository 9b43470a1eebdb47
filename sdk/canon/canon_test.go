package canon_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"math"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/caisson-run/caisson/sdk/canon"
)

func TestAppendString(t *testing.T) {
	for _, tc := range []struct{ in, want string }{
		{"", `""`},
		{"plain", `"plain"`},
		{"é ☃ 😀", `"é ☃ 😀"`},
		{`a"b\c`, `"a\"b\\c"`},
		{"\b\t\n\f\r", `"\b\t\n\f\r"`},
		{"\x00\x1f\x7f", "\"\\u0000\\u001f\x7f\""},
		{"<&>\u2028", "\"<&>\u2028\""}, // RFC 8785 escapes nothing that JSON does not require
		{"a\xffb\xc3", "\"a\uFFFDb\uFFFD\""},
	} {
		if got := string(canon.AppendString(nil, tc.in)); got != tc.want {
			t.Errorf("AppendString(%q) = %s, want %s", tc.in, got, tc.want)
		}
	}
}

func TestObject(t *testing.T) {
	o := canon.NewObject([]byte("x"))
	o.OptBool("a", true)
	o.OptBool("b", false)
	o.Int("c", math.MinInt64)
	o.OptInt("d", 0)
	o.OptString("e", "")
	o.String("f", "v")
	o.Strings("g", nil)
	o.OptStrings("h", []string{"1", "2"})
	o.Value("i", func(dst []byte) []byte { in := canon.NewObject(dst); return in.Close() })
	want := `x{"a":true,"c":-9223372036854775808,"f":"v","g":[],"h":["1","2"],"i":{}}`
	if got := string(o.Close()); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func TestReaderValues(t *testing.T) {
	r := canon.NewReader([]byte(` { "s" : "\u0041\ud83d\ude00\n" , "i":-12, "b":true, "l":["x",""], "skip":{"a":[1.5e+3,null,false]} } `))
	var s string
	var i int64
	var b bool
	var l []string
	r.Object(func(name string) {
		switch name {
		case "s":
			s = r.String()
		case "i":
			i = r.Int()
		case "b":
			b = r.Bool()
		case "l":
			l = r.Strings(2)
		default:
			r.Skip()
		}
	})
	if err := r.End(); err != nil {
		t.Fatal(err)
	}
	if s != "A😀\n" || i != -12 || !b || len(l) != 2 || l[0] != "x" {
		t.Errorf("got %q %d %v %q", s, i, b, l)
	}
}

func TestReaderRefuses(t *testing.T) {
	deep := strings.Repeat("[", canon.MaxDepth+1)
	many := "{" + strings.Repeat(`"a":1,`, canon.MaxMembers+1) + `"b":1}`
	for _, tc := range []struct{ name, in, want string }{
		{"empty", ``, "json: unexpected end at byte 0"},
		{"trailing", `{} x`, "json: unexpected text after the value at byte 3"},
		{"trailing comma", `{"a":1,}`, "json: want a string at byte 7"},
		{"array comma", `[1,]`, "json: [1]: want a value at byte 3"},
		{"duplicate", `{"a":1,"\u0061":2}`, `json: duplicate member "a" at byte 16`},
		{"path", `{"a":{"b":[0,{"c":tru}]}}`, "json: a.b[1].c: want a value at byte 18"},
		{"control", "\"a\nb\"", "json: control character in a string at byte 2"},
		{"control after escape", "\"\\n\x01\"", "json: control character in a string at byte 3"},
		{"open string", `"ab`, "json: string is not closed at byte 3"},
		{"open escape", `"ab\`, "json: string is not closed at byte 4"},
		{"escape", `"\x"`, "json: unknown escape in a string at byte 3"},
		{"lone surrogate", `"\ud800x"`, `json: bad \u escape in a string at byte 7`},
		{"two high surrogates", `"\ud800\ud800"`, `json: bad \u escape in a string at byte 13`},
		{"short hex", `"\u12"`, `json: bad \u escape in a string at byte 3`},
		{"bytes", "\"\xff\"", "json: string is not valid UTF-8 at byte 1"},
		{"bytes after escape", "\"\\n\xff\"", "json: string is not valid UTF-8 at byte 5"},
		{"leading zero", `01`, "json: unexpected text after the value at byte 1"},
		{"bare minus", `-`, "json: want a number at byte 0"},
		{"no colon", `{"a" 1}`, "json: want ':' after a member's name at byte 5"},
		{"no comma", `{"a":1 "b":2}`, "json: want ',' or '}' after a member at byte 7"},
		{"deep", deep, "nested too deep"},
		{"many", many, `duplicate member "a"`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := canon.NewReader([]byte(tc.in))
			r.Skip()
			err := r.End()
			var se *canon.SyntaxError
			if !errors.As(err, &se) || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %v, want %s", err, tc.want)
			}
		})
	}
}

func TestReaderTypedRefusals(t *testing.T) {
	for _, tc := range []struct {
		in, want string
		read     func(*canon.Reader)
	}{
		{`1.0`, "want a 64-bit integer", func(r *canon.Reader) { r.Int() }},
		{`9223372036854775808`, "want a 64-bit integer", func(r *canon.Reader) { r.Int() }},
		{`"1"`, "want a number", func(r *canon.Reader) { r.Int() }},
		{`null`, "want a string", func(r *canon.Reader) { _ = r.String() }},
		{`1`, "want true or false", func(r *canon.Reader) { r.Bool() }},
		{`["a","b"]`, "more than 1 elements", func(r *canon.Reader) { r.Strings(1) }},
		{`[]`, "want an object", func(r *canon.Reader) { r.Object(func(string) { r.Skip() }) }},
		{`{}`, "want an array", func(r *canon.Reader) { r.Strings(1) }},
	} {
		r := canon.NewReader([]byte(tc.in))
		tc.read(r)
		if err := r.End(); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: got %v, want %s", tc.in, err, tc.want)
		}
	}
}

// What ends a string, or is refused in one, is found wherever it stands: strings are
// looked at eight bytes at once.
func TestStringsOfEveryLength(t *testing.T) {
	for n := range 40 {
		for at := range n {
			for _, c := range []byte{0, 0x1f, ' ', '!', '"', '#', '[', '\\', ']', 0x7f, 0x80, 0xff} {
				text := bytes.Repeat([]byte("x"), n)
				text[at] = c
				if at%3 == 0 {
					text[0] = 0xc3 // not UTF-8 unless 0x80 follows
				}
				in := append(append([]byte{'"'}, text...), '"')
				r := canon.NewReader(in)
				got := r.String()
				err := r.End()
				var want string
				valid := utf8.Valid(in) && json.Unmarshal(in, &want) == nil
				if (err == nil) != valid || err == nil && got != want {
					t.Fatalf("%q: %q %v, encoding/json %q", in, got, err, want)
				}
			}
		}
	}
}

func TestIntegers(t *testing.T) {
	for _, in := range []string{
		"0", "-0", "7", "-7", "10", "999999999999999999", "1000000000000000000", "-999999999999999999",
		"9223372036854775807", "-9223372036854775808", "9223372036854775808", "123456789012345678901234567890",
		"00", "01", "-01", "-", "+1", "1.0", "1e2", "1E2", "0.5", "0e0", "1-", "1x", "", "1 ", " 1",
	} {
		r := canon.NewReader([]byte(in))
		got := r.Int()
		err := r.End()
		var want int64
		if valid := json.Unmarshal([]byte(in), &want) == nil; (err == nil) != valid || valid && got != want {
			t.Errorf("%q: %d %v, encoding/json %d", in, got, err, want)
		}
	}
}

// A Reader that is used again knows nothing of the text before.
func TestReset(t *testing.T) {
	var r canon.Reader
	for range 3 {
		r.Reset([]byte(`{"a":{"b":[1,x`))
		r.Skip()
		if r.End() == nil {
			t.Fatal("accepted")
		}
		r.Reset([]byte(`{"a":{"b":[1]}}`))
		r.Skip()
		if err := r.End(); err != nil {
			t.Fatal(err)
		}
	}
	if n := testing.AllocsPerRun(100, func() { r.Reset([]byte(`{"a":1,"b":"x"}`)); r.Skip(); _ = r.End() }); n > 2 {
		t.Errorf("%v allocations", n)
	}
}

func TestReaderManyMembers(t *testing.T) {
	var b bytes.Buffer
	b.WriteByte('{')
	for i := range canon.MaxMembers + 1 {
		if i > 0 {
			b.WriteByte(',')
		}
		b.Write(canon.AppendString(nil, strings.Repeat("k", i+1)))
		b.WriteString(":0")
	}
	b.WriteByte('}')
	r := canon.NewReader(b.Bytes())
	r.Skip()
	if err := r.End(); err == nil || !strings.Contains(err.Error(), "too many members") {
		t.Errorf("got %v", err)
	}
}

func TestReaderStopsAtFirstError(t *testing.T) {
	r := canon.NewReader([]byte(`[1,2]`))
	r.Fail("no")
	if r.Int() != 0 || r.String() != "" || r.Bool() || r.Strings(9) != nil {
		t.Error("a value was read after an error")
	}
	r.Object(func(string) { t.Error("member called after an error") })
	r.Skip()
	if err := r.End(); err == nil || err.Error() != "json: no at byte 0" {
		t.Errorf("got %v", err)
	}
}

func TestWritingDoesNotAllocate(t *testing.T) {
	buf := make([]byte, 0, 256)
	if n := testing.AllocsPerRun(100, func() {
		o := canon.NewObject(buf[:0])
		o.String("a", "text\n")
		o.Int("b", 12)
		buf = o.Close()
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// FuzzReader compares with encoding/json: what the Reader accepts is JSON, and
// what it refuses beyond that is refused for one of its own rules.
func FuzzReader(f *testing.F) {
	for _, seed := range []string{
		`{}`, `[]`, `""`, `0`, `-1.5e3`, `{"a":[{"b":"\ud83d\ude00"}]}`, `{"a":1,"a":2}`, "\"\xff\"", `"\ud800"`, ` [ true , null ] `,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		r := canon.NewReader(data)
		r.Skip()
		err := r.End()
		valid := json.Valid(data)
		if err == nil && !valid {
			t.Fatalf("accepted %q", data)
		}
		var se *canon.SyntaxError
		if errors.As(err, &se) && valid {
			for _, own := range []string{"duplicate member", "UTF-8", "escape", "nested too deep", "too many members"} {
				if strings.Contains(se.Problem, own) {
					return
				}
			}
			t.Fatalf("refused %q: %v", data, err)
		}
	})
}

// FuzzString sends a string through AppendString and back.
func FuzzString(f *testing.F) {
	f.Add("a\"\\\n\x00\u2028😀")
	f.Add("\xff")
	f.Fuzz(func(t *testing.T, s string) {
		text := canon.AppendString(nil, s)
		r := canon.NewReader(text)
		got := r.String()
		if err := r.End(); err != nil {
			t.Fatalf("%q: %v", s, err)
		}
		var want string
		if err := json.Unmarshal(text, &want); err != nil || got != want {
			t.Fatalf("%q: read %q, encoding/json %q (%v)", s, got, want, err)
		}
		if utf8.ValidString(s) && got != s {
			t.Fatalf("%q came back as %q", s, got)
		}
	})
}
