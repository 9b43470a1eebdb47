package main

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// Lines of a document that stand for what is measured.
const (
	beginMark   = "<!-- bench "
	keepMark    = "<!-- bench? " // the same, but what was measured before may stay
	machineMark = "<!-- machine -->"
	markEnd     = " -->"
	endMark     = "<!-- end -->"
)

// fill replaces what stands between the marks of a document.
func fill(doc string, r *results, machine string) (string, error) {
	var out strings.Builder
	var errs []error
	open := "" // the mark whose old content is passed over
	keep := "" // the mark whose old content stays
	for n, line := range strings.SplitAfter(doc, "\n") {
		mark := strings.TrimSuffix(line, "\n")
		switch {
		case mark == endMark:
			if open == "" && keep == "" {
				errs = append(errs, fmt.Errorf("line %d: %s without a beginning", n+1, endMark))
			}
			open, keep = "", ""
		case open != "":
			continue
		case strings.HasPrefix(mark, keepMark) && !matches(r, strings.TrimPrefix(mark, keepMark)):
			keep = mark
		case mark == machineMark || strings.HasPrefix(mark, keepMark) || strings.HasPrefix(mark, beginMark):
			open = mark
			text := machine + "\n"
			if mark != machineMark {
				var err error
				_, want, _ := strings.Cut(strings.TrimPrefix(mark, "<!-- bench"), " ")
				if text, err = table(r, strings.TrimSuffix(want, markEnd)); err != nil {
					errs = append(errs, fmt.Errorf("line %d: %w", n+1, err))
				}
			}
			out.WriteString(line + text)
			continue
		}
		out.WriteString(line)
	}
	if open+keep != "" {
		errs = append(errs, fmt.Errorf("no %s behind %s", endMark, open+keep))
	}
	return out.String(), errors.Join(errs...)
}

// matches reports whether there are results for the expression that text begins with.
// A wrong expression is table's to complain about.
func matches(r *results, text string) bool {
	name, _, _ := strings.Cut(text, " ")
	e, err := regexp.Compile(name)
	return err != nil || slices.ContainsFunc(r.all, func(b benchmark) bool { return e.MatchString(b.name) })
}

// table is what a mark asks for: an expression, and either nothing, which leaves out what
// -benchmem adds, or "all", or one unit, whose variants stand beside each other.
func table(r *results, mark string) (string, error) {
	fields := strings.Fields(mark)
	if len(fields) < 1 || len(fields) > 2 {
		return "", fmt.Errorf("%q is no expression and unit", mark)
	}
	names, err := regexp.Compile(fields[0])
	if err != nil {
		return "", err
	}
	var chosen []benchmark
	for _, b := range r.all {
		if names.MatchString(b.name) {
			chosen = append(chosen, b)
		}
	}
	if len(chosen) == 0 {
		return "", fmt.Errorf("no benchmark matches %s", fields[0])
	}
	switch {
	case len(fields) == 1:
		return byUnit(chosen, "B/op", "allocs/op"), nil
	case fields[1] == "all":
		return byUnit(chosen), nil
	}
	return byVariant(chosen, fields[1])
}

// byUnit has a row for each benchmark, and a column for each unit but some.
func byUnit(chosen []benchmark, but ...string) string {
	var units []string
	for _, b := range chosen {
		for unit, v := range b.figures {
			if v != 0 && !slices.Contains(units, unit) && !slices.Contains(but, unit) {
				units = append(units, unit)
			}
		}
	}
	slices.Sort(units)
	rows := [][]string{append([]string{"benchmark"}, units...)}
	for _, b := range chosen {
		row := []string{short(b.name)}
		for _, unit := range units {
			cell := ""
			if v, ok := b.figures[unit]; ok {
				cell = figure(v)
			}
			row = append(row, cell)
		}
		rows = append(rows, row)
	}
	return markdown(rows)
}

// byVariant has a row for what variants have in common, and a column for each.
func byVariant(chosen []benchmark, unit string) (string, error) {
	var variants, groups []string
	figures := map[[2]string]float64{}
	for _, b := range chosen {
		v, ok := b.figures[unit]
		i := strings.LastIndexByte(b.name, '/')
		if !ok || i < 0 {
			continue
		}
		group, variant := short(b.name[:i]), b.name[i+1:]
		if !slices.Contains(groups, group) {
			groups = append(groups, group)
		}
		if !slices.Contains(variants, variant) {
			variants = append(variants, variant)
		}
		figures[[2]string{group, variant}] = v
	}
	if len(groups) == 0 {
		return "", fmt.Errorf("no benchmark with variants has the unit %s", unit)
	}
	first, last := variants[0], variants[len(variants)-1]
	head := append([]string{unit}, variants...)
	if first != last {
		head = append(head, last+" / "+first)
	}
	rows := [][]string{head}
	for _, group := range groups {
		row := []string{group}
		for _, variant := range variants {
			cell := ""
			if v, ok := figures[[2]string{group, variant}]; ok {
				cell = figure(v)
			}
			row = append(row, cell)
		}
		a, b := figures[[2]string{group, first}], figures[[2]string{group, last}]
		switch {
		case first == last:
		case a > 0 && b > 0:
			row = append(row, figure(b/a))
		default:
			row = append(row, "")
		}
		rows = append(rows, row)
	}
	return markdown(rows), nil
}

// short is a name without what all have.
func short(name string) string { return strings.TrimPrefix(name, "Benchmark") }

// markdown draws a table; all but the first column are numbers.
func markdown(rows [][]string) string {
	var b strings.Builder
	for i, row := range rows {
		fmt.Fprintf(&b, "| %s |\n", strings.Join(row, " | "))
		if i == 0 {
			b.WriteString("|---|" + strings.Repeat("---:|", len(row)-1) + "\n")
		}
	}
	return b.String()
}
