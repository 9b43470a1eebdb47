package clang

import (
	"slices"
	"strings"
	"testing"
)

func TestParse(t *testing.T) {
	for _, tc := range []struct {
		argv   []string
		inputs []input
		output string
		flags  []string
		libs   []string
		plain  bool
	}{
		{buildC, []input{{"/run/caisson/main.c", "c"}}, "/run/caisson/main", []string{"-I", "/mnt/data", "-O2", "-std=gnu17"}, []string{"m"}, false},
		{buildCPP, []input{{"/run/caisson/main.cpp", "c++"}}, "/run/caisson/main", []string{"-I", "/mnt/data", "-O2", "-std=gnu++2a"}, []string{"m"}, true},
		{[]string{"clang++", "x.c", "-O2", "-std=c++2b", "-w"}, []input{{"/mnt/data/x.c", "c++"}}, "/mnt/data/a.out", []string{"-w", "-O2", "-std=c++2a"}, nil, false},
		{[]string{"clang++", "x.cc"}, []input{{"/mnt/data/x.cc", "c++"}}, "/mnt/data/a.out", []string{"-O0", "-std=gnu++14"}, nil, false},
		{[]string{"clang", "-g", "-Og", "-Dx=1", "-U", "y", "-x", "c++", "a", "-x", "none", "b.c", "-lfoo", "-o", "../../p"}, []input{{"/mnt/data/a", "c++"}, {"/mnt/data/b.c", "c"}}, "/p", []string{"-D", "x=1", "-U", "y", "-O1"}, []string{"foo"}, false},
		{[]string{"clang++", "-O2", "-std=gnu++20", "-DX", "x.cc"}, []input{{"/mnt/data/x.cc", "c++"}}, "/mnt/data/a.out", []string{"-D", "X", "-O2", "-std=gnu++2a"}, nil, false},
	} {
		j, err := parse(tc.argv, "/mnt/data")
		if err != nil {
			t.Errorf("%q: %v", tc.argv, err)
			continue
		}
		if !slices.Equal(j.inputs, tc.inputs) || j.output != tc.output || !slices.Equal(j.flags, tc.flags) || !slices.Equal(j.libs, tc.libs) || j.plain != tc.plain {
			t.Errorf("%q: %+v", tc.argv, *j)
		}
	}
	many := []string{"clang"}
	for range maxInputs + 1 {
		many = append(many, "x.c")
	}
	for want, argv := range map[string][]string{
		"no input files":                  {"clang"},
		"unsupported option '-c'":         {"clang", "-c", "x.c"},
		"unsupported option '-cc1":        {"clang", "-cc1", "x.c"},
		"unsupported option '-Xclang'":    {"clang", "-Xclang", "-load", "x.c"},
		"unsupported option '-Wl,--wrap'": {"clang", "-Wl,--wrap", "x.c"},
		"unsupported option '-fplugin=x'": {"clang", "-fplugin=x", "x.c"},
		"unsupported option '-@x'":        {"clang", "-@x", "x.c"},
		"'@x' is no source file":          {"clang", "@x"},
		"argument to '-o' is missing":     {"clang", "x.c", "-o"},
		"macro name must be":              {"clang", "-D", "-load=x", "x.c"},
		"no library '../x'":               {"clang", "-l../x", "x.c"},
		"invalid value in '-std=-x'":      {"clang", "-std=-x", "x.c"},
		"language not recognized":         {"clang", "-x", "ir", "x.c"},
		"more than 64 input files":        many,
	} {
		if j, err := parse(argv, "/mnt/data"); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %+v, %v", argv, j, err)
		}
	}
}

func TestLeadingIncludes(t *testing.T) {
	for source, want := range map[string][]string{
		"":                      nil,
		"#include <iostream>\n": {"iostream"},
		"// text\n\n/* more\n#include <x> */ #include <iostream>\r\n#include <map>": {"iostream", "map"},
		" #  include<iostream> // why\nusing namespace std;\n#include <map>\n":      {"iostream"},
		"#define X\n#include <iostream>\n":                                          nil,
		"#include \"x.h\"\n#include <iostream>\n":                                   nil,
		"#pragma GCC optimize(\"O3\")\n#include <bits/stdc++.h>\n":                  {"bits/stdc++.h"},
		"#pragma once\n#include <iostream>\n":                                       nil,
		"// text \\\n#include <iostream>\n":                                         nil,
		"#include <iostream> /* open\n#include <map> */":                            nil,
		"#include <iostream> \\\n":                                                  nil,
		"/* open\n#include <iostream>":                                              nil,
		"#if 0\n#include <iostream>\n#endif":                                        nil,
		"%:include <iostream>":                                                      nil,
		"\xef\xbb\xbf#include <iostream>":                                           {"iostream"},
	} {
		if got := leadingIncludes([]byte(source)); !slices.Equal(got, want) {
			t.Errorf("%q: %q, want %q", source, got, want)
		}
	}
}

// Neither hangs nor panics, and what is found is written there.
func FuzzLeadingIncludes(f *testing.F) {
	f.Add("/* x */ #include <iostream>\n#include <map> // y\n")
	f.Add("/*/ */#include <a>")
	f.Fuzz(func(t *testing.T, source string) {
		for _, h := range leadingIncludes([]byte(source)) {
			if !strings.Contains(source, "<"+h+">") {
				t.Errorf("%q has no %q", source, h)
			}
		}
	})
}

// Whatever is passed on is either an option of ours or a value behind one that takes
// it, so that nobody makes the compiler load or write anything.
func FuzzParse(f *testing.F) {
	f.Add("-O2\n-I\nx\nmain.c")
	f.Add("-include\n-load\n-Dx=-y\n-W-load\nx.cpp")
	f.Fuzz(func(t *testing.T, args string) {
		j, err := parse(append([]string{"clang++"}, strings.Split(args, "\n")...), "/mnt/data")
		if err != nil {
			return
		}
		for i := 0; i < len(j.flags); i++ {
			switch a := j.flags[i]; {
			case slices.Contains([]string{"-I", "-isystem", "-include"}, a):
				if i++; !strings.HasPrefix(j.flags[i], "/") {
					t.Errorf("%q: path %q", args, j.flags[i])
				}
			case a == "-D", a == "-U":
				i++
			case slices.Contains(passed, a), warning.MatchString(a), strings.HasPrefix(a, "-O"), standard.MatchString(a), a == "-ffast-math":
			default:
				t.Errorf("%q: %q", args, a)
			}
		}
		for _, in := range j.inputs {
			if !strings.HasPrefix(in.path, "/") {
				t.Errorf("%q: input %q", args, in.path)
			}
		}
		if !strings.HasPrefix(j.output, "/") {
			t.Errorf("%q: output %q", args, j.output)
		}
	})
}
