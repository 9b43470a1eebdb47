package exec

import (
	"strings"
	"testing"
)

// In a batch a name that no file can have costs that file only.
func TestBatchOfImpossibleNames(t *testing.T) {
	r := newRig(t)
	for _, c := range []string{"\x00", "\x1b", "\x7f", "\x01"} {
		a := r.send(alice, "/upload/batch", csv("a.csv", "1"), csv("b"+c+".csv", "2"), csv("c.csv", "3"))
		reply := into[batchReply](t, a, 200)
		if reply.Message != "partial_success" || reply.Succeeded != 2 || reply.Failed != 1 || len(reply.Files) != 3 {
			t.Fatalf("%q: %s", c, a.body)
		}
		if f := reply.Files[1]; f.Status != "error" || f.Filename != "b"+c+".csv" || !strings.Contains(f.Error, "control character") {
			t.Errorf("%q: %+v", c, f)
		}
		if got := r.get(alice, "/download/"+reply.SessionID+"/"+reply.Files[2].FileID); string(got.body) != "3" {
			t.Errorf("%q: %d %q", c, got.status, got.body)
		}
		if one := r.send(alice, "/upload", csv("b"+c+".csv", "2")); one.status != 400 || !strings.Contains(string(one.body), "control character") {
			t.Errorf("%q: %d %s", c, one.status, one.body)
		}
	}
}
