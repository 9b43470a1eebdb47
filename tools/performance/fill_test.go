package main

import (
	"strings"
	"testing"
)

const output = `goos: linux
goarch: amd64
pkg: example.com/a
cpu: Some Processor
BenchmarkRun/print/py/caisson-2         	     100	         2.500 p50-ms	        9.25 p99-ms
BenchmarkRun/print/py/native-2          	     100	        30.00 p50-ms	       50.00 p99-ms
BenchmarkRun/loop/py/caisson-2          	      10	       100.0 p50-ms
BenchmarkCall-2                         	 1000000	      1234 ns/op	       8 B/op	       0 allocs/op
BenchmarkCall-2                         	 1000000	      1236 ns/op	       8 B/op	       0 allocs/op
BenchmarkCall-2                         	 1000000	      9999 ns/op	       8 B/op	       0 allocs/op
PASS
ok  	example.com/a	1.0s
`

func TestFill(t *testing.T) {
	r, err := read(strings.NewReader(output))
	if err != nil {
		t.Fatal(err)
	}
	if r.cpu != "Some Processor" {
		t.Errorf("cpu is %q", r.cpu)
	}
	doc := `# Performance
<!-- machine -->
old
<!-- end -->
text
<!-- bench ^BenchmarkRun/ p50-ms -->
<!-- end -->
<!-- bench? Call -->
| old |
<!-- end -->
<!-- bench Call all -->
<!-- end -->
<!-- bench? Elsewhere p50-ms -->
| kept |
<!-- end -->
rest
`
	want := `# Performance
<!-- machine -->
here and now
<!-- end -->
text
<!-- bench ^BenchmarkRun/ p50-ms -->
| p50-ms | caisson | native | native / caisson |
|---|---:|---:|---:|
| Run/print/py | 2.5 | 30.0 | 12.0 |
| Run/loop/py | 100 |  |  |
<!-- end -->
<!-- bench? Call -->
| benchmark | ns/op |
|---|---:|
| Call | 1236 |
<!-- end -->
<!-- bench Call all -->
| benchmark | B/op | ns/op |
|---|---:|---:|
| Call | 8 | 1236 |
<!-- end -->
<!-- bench? Elsewhere p50-ms -->
| kept |
<!-- end -->
rest
`
	for range 2 { // what was written can be written again
		if doc, err = fill(doc, r, "here and now"); err != nil {
			t.Fatal(err)
		}
		if doc != want {
			t.Errorf("got\n%s\nwant\n%s", doc, want)
		}
	}
}

func TestErrors(t *testing.T) {
	r, err := read(strings.NewReader(output))
	if err != nil {
		t.Fatal(err)
	}
	for doc, want := range map[string]string{
		"<!-- bench ^BenchmarkNothing -->\n<!-- end -->\n":     "no benchmark matches",
		"<!-- bench ^BenchmarkCall -->\n":                      "no <!-- end -->",
		"<!-- bench? Elsewhere -->\n":                          "no <!-- end -->",
		"<!-- bench? ( -->\n<!-- end -->\n":                    "error parsing regexp",
		"<!-- end -->\n":                                       "without a beginning",
		"<!-- bench ( -->\n<!-- end -->\n":                     "error parsing regexp",
		"<!-- bench a b c -->\n<!-- end -->\n":                 "no expression and unit",
		"<!-- bench ^BenchmarkCall p50-ms -->\n<!-- end -->\n": "has the unit",
	} {
		if _, err := fill(doc, r, ""); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", doc, err, want)
		}
	}
	for _, in := range []string{"", "PASS\n", output + "--- FAIL: BenchmarkX\nFAIL\n"} {
		if _, err := read(strings.NewReader(in)); err == nil {
			t.Errorf("%q was accepted", in)
		}
	}
}
