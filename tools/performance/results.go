package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"

	"golang.org/x/perf/benchfmt"
)

// benchmark is one benchmark with its figures by unit.
type benchmark struct {
	name    string
	figures map[string]float64
}

// results are benchmarks in the order of their first result.
type results struct {
	all []benchmark
	cpu string
}

// failure is how go test says that something failed.
var failure = regexp.MustCompile(`(?m)^(--- FAIL|FAIL|panic).*$`)

// read reads the output of go test. Of a benchmark that ran more than once, each
// figure is the median.
func read(in io.Reader) (*results, error) {
	text, err := io.ReadAll(in)
	if err != nil {
		return nil, err
	}
	if line := failure.Find(text); line != nil {
		return nil, fmt.Errorf("the input has failures: %s", line)
	}
	var r results
	samples := map[string]map[string][]float64{}
	reader := benchfmt.NewReader(bytes.NewReader(text), "standard input")
	for reader.Scan() {
		res, ok := reader.Result().(*benchfmt.Result)
		if !ok {
			continue
		}
		if cpu := res.GetConfig("cpu"); cpu != "" {
			r.cpu = cpu
		}
		name := "Benchmark" + trimProcs(res.Name.String())
		if samples[name] == nil {
			samples[name] = map[string][]float64{}
			r.all = append(r.all, benchmark{name: name, figures: map[string]float64{}})
		}
		for _, v := range res.Values {
			unit, value := v.Unit, v.Value
			if v.OrigUnit != "" {
				unit, value = v.OrigUnit, v.OrigValue
			}
			samples[name][unit] = append(samples[name][unit], value)
		}
	}
	if err := reader.Err(); err != nil {
		return nil, err
	}
	if len(r.all) == 0 {
		return nil, errors.New("no benchmarks in the input")
	}
	for _, b := range r.all {
		for unit, values := range samples[b.name] {
			slices.Sort(values)
			b.figures[unit] = values[len(values)/2]
		}
	}
	return &r, nil
}

// trimProcs takes the number of processors off a name.
func trimProcs(name string) string {
	if i := strings.LastIndexByte(name, '-'); i > 0 && strings.Trim(name[i+1:], "0123456789") == "" {
		return name[:i]
	}
	return name
}

// figure formats a value with three significant digits.
func figure(v float64) string {
	switch {
	case v == 0:
		return "0"
	case v >= 100:
		return fmt.Sprintf("%.0f", v)
	case v >= 10:
		return fmt.Sprintf("%.1f", v)
	default:
		return fmt.Sprintf("%.3g", v)
	}
}
