package clang

import "testing"

func TestHello(t *testing.T) {
	s := newSandbox(t)
	o := s.run(false, "#include <stdio.h>\nint main(int n, char **v) { printf(\"hello %s é😀\\n\", v[1]); return 3; }", nil, "a b")
	t.Logf("%+v", o)
	o = s.run(true, "#include <iostream>\nint main(int n, char **v) { std::cout << \"hello \" << v[1] << std::endl; return 3; }", nil, "a b")
	t.Logf("%+v", o)
}
