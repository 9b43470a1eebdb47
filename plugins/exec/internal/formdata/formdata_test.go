package formdata

import (
	"bytes"
	"errors"
	"io"
	"mime/multipart"
	"net/textproto"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
)

const contentType = "multipart/form-data; boundary=BB"

func body(parts ...string) string {
	var b strings.Builder
	for _, p := range parts {
		b.WriteString("--BB\r\n" + p + "\r\n")
	}
	return b.String() + "--BB--\r\n"
}

func file(disposition, content string) string {
	return "Content-Disposition: " + disposition + "\r\n\r\n" + content
}

func TestFileNamesSurvive(t *testing.T) {
	for _, tt := range []struct{ disposition, want string }{
		{`form-data; name="file"; filename="skills/demo/SKILL.md"`, "skills/demo/SKILL.md"},
		{`form-data; name="file"; filename="../../etc/passwd"`, "../../etc/passwd"},
		{`form-data; name="file"; filename="my données 数据 %22q%22.csv"`, "my données 数据 %22q%22.csv"},
		{`form-data; name="file"; filename="C:\dir\x.csv"`, `C:\dir\x.csv`},
		{`form-data; name="file"; filename="a \"b\".csv"`, `a "b".csv`},
		{`form-data; name="file"; filename*=UTF-8''na%C3%AFve.txt`, "naïve.txt"},
		{`FORM-DATA; NAME=file; FILENAME=x.csv`, "x.csv"},
		{`form-data; name="file"; filename=""`, ""},
	} {
		r, err := Open(contentType, strings.NewReader(body(file(tt.disposition, "x"))))
		if err != nil {
			t.Fatal(err)
		}
		p, err := r.Next()
		if err != nil || !p.File || p.Name != "file" || p.FileName != tt.want {
			t.Errorf("%s: %+v, %v; want the name %q", tt.disposition, p, err, tt.want)
		}
	}
}

// A name with control characters is the file's fault, not the form's: it comes as it was
// sent, and so do the other parts, whatever they hold.
func TestControlCharacters(t *testing.T) {
	content := "\x00\x1b\x7f\xff\n--BB\n\x00\r\n\r\n--BBB\r\n\x1b: \x00\n"
	for name, whole := range map[string]string{
		"": body(
			file("form-data; name=\"file\"; filename=\"a\x00b\x1b\x7f\"\r\nContent-Type: text/plain", content),
			file(`form-data; name="file"; filename="ok"`, content),
			file("form-data; name=\"f\x01\"; filename=\"\x02\"", content),
		),
		"with a preamble": "\x00 to whom it may concern\r\n" + body(
			file("form-data; name=\"file\"; filename=\"a\x00b\x1b\x7f\"", content),
			file(`form-data; name="file"; filename="ok"`, content),
			"X: \x03\r\n"+file("form-data; name=\"f\x01\"; filename=\"\x02\"", content),
		),
	} {
		for _, r := range []io.Reader{strings.NewReader(whole), iotest.OneByteReader(strings.NewReader(whole))} {
			m, err := Open(contentType, r)
			if err != nil {
				t.Fatal(err)
			}
			var names []string
			for {
				p, err := m.Next()
				if err == io.EOF {
					break
				}
				if err != nil {
					t.Fatalf("%s: %v", name, err)
				}
				names = append(names, p.FileName)
				if got, err := io.ReadAll(p.Body); err != nil || string(got) != content {
					t.Errorf("%s: %q holds %q, %v", name, p.FileName, got, err)
				}
			}
			if len(names) != 3 || names[0] != "a\x00b\x1b\x7f" || names[1] != "ok" || !strings.ContainsAny(names[2], "\x01\x02\x03") {
				t.Errorf("%s: names %q", name, names)
			}
		}
	}
}

func TestPartsInOrder(t *testing.T) {
	r, err := Open(contentType, iotest.OneByteReader(strings.NewReader(body(
		file(`form-data; name="kind"`, "skill"),
		file(`form-data; name="file"; filename="a"`, "\r\n--B is no boundary, nor is --BB\r\n"),
		file(`form-data; name="file"; filename="skipped"`, "unread"),
		file(`form-data; name="id"`, strings.Repeat("x", 11)),
	))))
	if err != nil {
		t.Fatal(err)
	}
	p, err := r.Next()
	if err != nil {
		t.Fatal(err)
	}
	if v, err := p.Field(10); err != nil || v != "skill" || p.File {
		t.Errorf("field = %q, %v, file %v", v, err, p.File)
	}
	if p, err = r.Next(); err != nil {
		t.Fatal(err)
	}
	if b, err := io.ReadAll(p.Body); err != nil || string(b) != "\r\n--B is no boundary, nor is --BB\r\n" {
		t.Errorf("body = %q, %v", b, err)
	}
	for range 2 {
		if p, err = r.Next(); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := p.Field(10); err == nil || !strings.Contains(err.Error(), `"id"`) {
		t.Errorf("a field beyond its limit: %v, want an error naming it", err)
	}
	if _, err := r.Next(); err != io.EOF {
		t.Errorf("after the last part: %v", err)
	}
}

func TestNotFormData(t *testing.T) {
	for _, ct := range []string{
		"", "application/json", "multipart/form-data", "multipart/form-data; boundary=", "multipart/mixed; boundary=BB",
		"multipart/form-data; boundary=" + strings.Repeat("x", 71), "multipart/form-data; boundary=\"",
	} {
		if _, err := Open(ct, strings.NewReader("")); !errors.Is(err, ErrNotFormData) {
			t.Errorf("Open(%q) = %v", ct, err)
		}
	}
}

// A body that breaks off is never taken for one that ends.
func TestBrokenBodies(t *testing.T) {
	whole := body(file(`form-data; name="file"; filename="a"`, "content"), file(`form-data; name="x"`, "y"))
	for n := range len(whole) - len("--\r\n") {
		if err := drain(strings.NewReader(whole[:n])); err == nil {
			t.Fatalf("the first %d of %d bytes read as a whole body", n, len(whole))
		} else if _, ok := errors.AsType[*FormatError](err); !ok {
			t.Fatalf("the first %d bytes: %v, want a FormatError", n, err)
		}
	}
	for _, part := range []string{"\r\nno header", "Content-Disposition: attachment\r\n\r\n", "Content-Disposition: form-data; name=\"a\"; name=\"b\"\r\n\r\n", "broken header\r\n\r\n"} {
		if _, ok := errors.AsType[*FormatError](drain(strings.NewReader(body(part)))); !ok {
			t.Errorf("part %q: no FormatError", part)
		}
	}
}

// Why a request cannot be read decides its status: it is not hidden.
func TestReadErrorsPassThrough(t *testing.T) {
	broken := errors.New("idle")
	whole := body(file(`form-data; name="file"; filename="a"`, strings.Repeat("x", 8192)))
	for _, n := range []int{0, 10, 60, 5000} {
		err := drain(io.MultiReader(strings.NewReader(whole[:n]), iotest.ErrReader(broken)))
		if !errors.Is(err, broken) {
			t.Errorf("an error after %d bytes came back as %v", n, err)
		}
	}
}

func drain(r io.Reader) error {
	m, err := Open(contentType, r)
	if err != nil {
		return err
	}
	for {
		p, err := m.Next()
		if err == io.EOF {
			return nil
		}
		if err == nil {
			_, err = io.Copy(io.Discard, p.Body)
		}
		if err != nil {
			return err
		}
	}
}

func FuzzDisposition(f *testing.F) {
	for _, s := range []string{`form-data; name="file"; filename="a/b"`, `form-data; name=x; filename*=UTF-8''%41`, "form-data;;", ""} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, v string) {
		name, filename, file, err := disposition(v)
		if err != nil && (name != "" || filename != "" || file) {
			t.Errorf("disposition(%q) = %q, %q, %v beside %v", v, name, filename, file, err)
		}
	})
}

// contents reads a form that has nothing to be replaced.
func contents(r *multipart.Reader) (out []string, err error) {
	for {
		p, err := r.NextRawPart()
		if err == io.EOF {
			return out, nil
		}
		if err != nil {
			return nil, err
		}
		b, err := io.ReadAll(p)
		if err != nil {
			return nil, err
		}
		out = append(out, p.Header.Get("Content-Disposition"), string(b))
	}
}

// What our writer writes, our reader reads; anything else is an error, not a panic.
func FuzzReader(f *testing.F) {
	f.Add([]byte(body(file(`form-data; name="file"; filename="a"`, "x"))), "content")
	f.Fuzz(func(t *testing.T, raw []byte, content string) {
		_ = drain(bytes.NewReader(raw))
		if want, err := contents(multipart.NewReader(bytes.NewReader(raw), "BB")); err == nil {
			m, err := Open(contentType, bytes.NewReader(raw))
			if err != nil {
				t.Fatal(err)
			}
			if got, err := contents(m.parts); err != nil || !slices.Equal(got, want) {
				t.Errorf("%q holds %q, %v; want %q", raw, got, err, want)
			}
		}

		var b bytes.Buffer
		w := multipart.NewWriter(&b)
		part, err := w.CreatePart(textproto.MIMEHeader{"Content-Disposition": {`form-data; name="file"; filename="x"`}})
		if err != nil {
			t.Fatal(err)
		}
		io.WriteString(part, content)
		w.Close()
		r, err := Open(w.FormDataContentType(), &b)
		if err != nil {
			t.Fatal(err)
		}
		p, err := r.Next()
		if err != nil {
			t.Fatal(err)
		}
		if got, err := io.ReadAll(p.Body); err != nil || string(got) != content {
			t.Errorf("read %q, %v; wrote %q", got, err, content)
		}
	})
}

// The header of a part is bounded, and a name does not keep the header that it came in.
func TestLongHeaders(t *testing.T) {
	for _, header := range []string{
		`form-data; name="file"; filename="` + strings.Repeat("x", maxHeader) + `"`,
		"form-data; name=\"file\"; filename=\"a\"" + strings.Repeat("\r\nX: y", maxHeader/6),
		"form-data; name=\"file\"; filename=\"" + strings.Repeat("\x01", maxHeader) + `"`,
	} {
		for name, parts := range map[string][]string{"first": {file(header, "x")}, "second": {file(`form-data; name="file"; filename="a"`, "x"), file(header, "x")}} {
			m, err := Open(contentType, strings.NewReader(body(parts...)))
			if err != nil {
				t.Fatal(err)
			}
			var fe *FormatError
			for err == nil {
				var p *Part
				if p, err = m.Next(); err == nil {
					_, err = io.ReadAll(p.Body)
				}
			}
			if !errors.As(err, &fe) || fe.Reason != "the header of a part is longer than 32768 bytes" {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
	content := strings.Repeat("x", 4*maxHeader)
	m, err := Open(contentType, strings.NewReader(body(file(`form-data; name="file"; filename="`+strings.Repeat("%41", 10000)+`"`, content))))
	if err != nil {
		t.Fatal(err)
	}
	p, err := m.Next()
	if err != nil || len(p.FileName) != 30000 {
		t.Fatal(err)
	}
	if b, err := io.ReadAll(p.Body); err != nil || string(b) != content {
		t.Errorf("%d bytes, %v", len(b), err)
	}
}
