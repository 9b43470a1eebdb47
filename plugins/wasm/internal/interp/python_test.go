package interp

import (
	"context"
	"testing"
)

// python runs source as a script in s.
func (s *sandbox) python(source string, args ...string) out {
	s.t.Helper()
	need(s.t, "python3")
	return s.run(context.Background(), s.program("python3", "main.py", source, args...))
}

func TestProbe(t *testing.T) {
	s := newSandbox(t)
	s.expect(s.python("print('hi')"), 0, "hi\n", "")
}
