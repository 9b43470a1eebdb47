package exec

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/caisson-run/caisson/host"
	"github.com/caisson-run/caisson/sdk/policy"
)

func TestHello(t *testing.T) {
	r := newRig(t)
	res := r.exec(alice, "echo hi; echo no >&2")
	if res.Stdout != "hi\n" || res.Stderr != "no\n" || *res.Code != 0 || res.Signal != nil || res.Status != nil || len(res.SessionID) != 21 {
		t.Errorf("result = %+v", res)
	}
	if a := r.post(alice, "/v1/exec", obj{"lang": "bash", "code": "true"}); !strings.Contains(string(a.body), `"files":[]`) {
		t.Errorf("files must be an array: %s", a.body)
	}
}

func TestLanguages(t *testing.T) {
	r := newRig(t)
	for _, lang := range []string{"bash", " BASH ", "sh"} {
		if res := into[CodeResult](t, r.post(alice, "/exec", obj{"lang": lang, "code": "echo ok"}), 200); res.Stdout != "ok\n" {
			t.Errorf("%q: %+v", lang, res)
		}
	}
	e := into[obj](t, r.post(alice, "/exec", obj{"lang": "brainfuck", "code": "+"}), 400)
	if e["error"] != "Unsupported language: brainfuck. Supported: bash, c" || e["code"] != "unsupported_language" {
		t.Errorf("%v", e)
	}
	e = into[obj](t, r.post(alice, "/exec", obj{"lang": "go", "code": "x"}), 400)
	if s := e["error"].(string); !strings.Contains(s, "bash, c") || strings.Contains(s, "/opt") {
		t.Errorf("%v", e)
	}
	list := into[struct{ Languages []offered }](t, r.get(alice, "/languages"), 200).Languages
	if len(list) != 3 || !list[0].Available || list[0].Version != "5" || list[2].Available || list[2].ID != "go" {
		t.Errorf("languages = %+v", list)
	}
	if n := r.shells.created.Load(); n != 3 {
		t.Errorf("%d sandboxes for three runs", n)
	}
}

// Without a single interpreter it is the server that is at fault.
func TestNoInterpreterAtAll(t *testing.T) {
	r := newRig(t)
	r.bare = true
	a := r.post(rich, "/exec", obj{"lang": "bash", "code": "true"})
	if e := into[obj](t, a, 503); e["code"] != "sandbox_unavailable" || a.header.Get("Retry-After") == "" || strings.Contains(string(a.body), "/opt") {
		t.Errorf("%s", a.body)
	}
	if e := into[obj](t, r.post(rich, "/exec", obj{"lang": "cobol", "code": "true"}), 400); e["code"] != "unsupported_language" {
		t.Errorf("%v", e)
	}
	if n := len(r.usage()); n != 0 || r.shells.created.Load() != 0 {
		t.Errorf("%d charges, %d sandboxes", n, r.shells.created.Load())
	}
}

// What the program's argv holds, it gets, and no compiler sees it.
func TestArgsAreVerbatim(t *testing.T) {
	r := newRig(t)
	args := []string{"a b", "--x", "$(id)", "'\"", "line\nbreak", "", "-O2", "{dir}"}
	res := r.exec(alice, `for a; do printf '<%s>' "$a"; done`, obj{"args": args})
	if want := "<" + strings.Join(args, "><") + ">"; res.Stdout != want {
		t.Errorf("stdout = %q, want %q", res.Stdout, want)
	}
	res = into[CodeResult](t, r.post(alice, "/exec", obj{"lang": "c", "code": "ok", "args": []string{"-fplugin=x"}}), 200)
	if res.Stdout != "-fplugin=x\n" {
		t.Errorf("%+v", res)
	}
	res = into[CodeResult](t, r.post(alice, "/exec", obj{"lang": "c", "code": "broken"}), 200)
	if *res.Code != 1 || res.Stderr != "main.c:1: broken\n" {
		t.Errorf("compile error: %+v", res)
	}
}

// Arguments that no program could be given, or no language table could plan, are
// refused by name before anything is spent.
func TestArgsAreBounded(t *testing.T) {
	r := newRig(t)
	long := func(n int) string { return strings.Repeat("x", n) }
	for name, tt := range map[string]struct {
		args any
		want string // of the error, or "" for a run
	}{
		"the longest":        {[]string{long(maxArgBytes), long(maxArgBytes), "", "ab"}, ""},
		"one too long":       {[]string{"a", long(maxArgBytes + 1)}, "args[1] is longer than 131071 bytes"},
		"too long in all":    {[]string{long(maxArgBytes), long(maxArgBytes), "abc"}, "args has more than 262144 bytes in all"},
		"two megabytes":      {long(2 << 20), "args[0] is longer than 131071 bytes"},
		"escaped characters": {[]string{strings.Repeat("\x01", maxArgBytes+1)}, "args[0] is longer than 131071 bytes"},
		"too many":           {make([]string, maxArgs+1), "args has more than 1024 elements"},
	} {
		before := r.shells.created.Load()
		a := r.post(rich, "/exec", obj{"lang": "bash", "code": "echo $#", "args": tt.args})
		if tt.want == "" {
			if res := into[CodeResult](t, a, 200); res.Stdout != "4\n" {
				t.Errorf("%s: %+v", name, res)
			}
			continue
		}
		if e := into[obj](t, a, 400); e["error"] != tt.want || e["code"] != "invalid_request" || r.shells.created.Load() != before {
			t.Errorf("%s: %v", name, e)
		}
	}
	if n := len(r.usage()); n != 1 {
		t.Errorf("%d runs were charged, want one", n)
	}
}

// What a language table does not take is the caller's, what is wrong with the
// table the operator's.
func TestFailuresOfPlanning(t *testing.T) {
	r := newRig(t)
	for _, tt := range []struct {
		err    *host.PlanError
		status int
		error  string
	}{
		{&host.PlanError{Refused: "sql programs take no arguments"}, 400, "args: sql programs take no arguments"},
		{&host.PlanError{Again: true, Err: errors.New("/secret")}, 503, "the run cannot be planned now"},
		{&host.PlanError{Err: errors.New("/secret")}, 500, "internal error"},
	} {
		r.planned = tt.err
		a := r.post(rich, "/exec", obj{"lang": "bash", "code": "true"})
		if e := into[obj](t, a, tt.status); e["error"] != tt.error || strings.Contains(string(a.body), "secret") {
			t.Errorf("%v: %s", tt.err, a.body)
		}
	}
	if n := len(r.usage()); n != 0 || r.shells.created.Load() != 0 {
		t.Errorf("%d charges, %d sandboxes", n, r.shells.created.Load())
	}
}

func TestProgramIsByteExact(t *testing.T) {
	r := newRig(t)
	code := "cat <<'EOF'\n\ttab \xef\xbb\xbf'''EOF''' \\n $HOME\r\nEOF\n"
	if res := r.exec(alice, code); res.Stdout != "\ttab \xef\xbb\xbf'''EOF''' \\n $HOME\r\n" {
		t.Errorf("stdout = %q", res.Stdout)
	}
	if res := r.exec(alice, "cat; echo end"); res.Stdout != "end\n" {
		t.Errorf("stdin is not at its end: %q", res.Stdout)
	}
}

// A program's failure is a result with everything it left.
func TestFailuresOfPrograms(t *testing.T) {
	r := newRig(t, func(o *Options) { o.ChangedFiles = 3; o.ChangedFileBytes = 1000 })
	res := r.exec(alice, "echo x > f.txt; echo oops >&2; exit 3")
	if *res.Code != 3 || res.Stderr != "oops\n" || fileNames(res.Files) != "f.txt" || res.Status != nil {
		t.Errorf("exit 3 = %+v", res)
	}
	if res = r.exec(alice, "exit 3"); res.Stderr != "[sandbox] Exited with code 3 and no output\n" {
		t.Errorf("silent exit = %q", res.Stderr)
	}
	if res = r.exec(alice, "printf partial >&2; kill -SEGV $$"); *res.Code != 139 || *res.Signal != "SIGSEGV" || *res.Status != "SG" ||
		res.Stderr != "partial\n[sandbox] Terminated by SIGSEGV\n" {
		t.Errorf("signal = %+v", res)
	}
	if res = r.exec(alice, "cat /nowhere"); *res.Code != 1 || res.Stdout != "" || res.Stderr != "cat: /nowhere: No such file or directory\n" {
		t.Errorf("missing file = %+v", res)
	}
	start := time.Now()
	for r.limits.Wall = 300 * time.Millisecond; ; r.limits.Wall *= 2 { // on a busy machine it comes no further than that
		res = r.exec(alice, "echo before; echo kept > k.txt; sleep 60 & sleep 60")
		if len(res.Files) > 0 || r.limits.Wall > 4*time.Second {
			break
		}
	}
	if res.Code != nil || *res.Status != "TO" || *res.Message != "Time limit exceeded" || res.Stdout != "before\n" ||
		res.Stderr != "[sandbox] Time limit exceeded\n" || fileNames(res.Files) != "k.txt" {
		t.Errorf("timeout = %+v", res)
	}
	if time.Since(start) > 30*time.Second {
		t.Error("a child kept the run open")
	}
	r.limits.Wall = 20 * time.Second
	res = r.exec(alice, "for i in 1 2 3 4 5; do echo $i > f$i; done; head -c 2000 /dev/zero > big")
	if d := res.ArtifactDelivery; len(res.Files) != 3 || d == nil || *d != (ArtifactDelivery{"artifact_delivery_failed", "partial", 6, 3, 3}) {
		t.Errorf("too many files = %+v %+v", res, res.ArtifactDelivery)
	}
	res = r.exec(alice, "head -c 2000 /dev/zero > big")
	if d := res.ArtifactDelivery; d == nil || *d != (ArtifactDelivery{"artifact_delivery_failed", "failed", 1, 0, 1}) {
		t.Errorf("too large a file = %+v", res.ArtifactDelivery)
	}
}

// What could not come back as an input is not announced, and its loss is.
func TestNamesThatAreNotAnnounced(t *testing.T) {
	r := newRig(t)
	res := r.exec(alice, `echo 1 > "$(printf 'a\nb')"; echo 2 > 'c\d'; echo 3 > 'é x'; echo said >&2`)
	if fileNames(res.Files) != "é x" || res.Stderr != "said\n[sandbox] Files not handed over because of their names: \"a\\nb\", c\\d\n" {
		t.Errorf("%s, stderr %q", fileNames(res.Files), res.Stderr)
	}
	if d := res.ArtifactDelivery; d == nil || *d != (ArtifactDelivery{"artifact_delivery_failed", "partial", 3, 1, 2}) {
		t.Errorf("delivery = %+v", d)
	}
	list := into[[]listed](t, r.get(alice, "/files/"+res.SessionID), 200)
	if len(list) != 1 || list[0].Metadata.OriginalFilename != "é x" {
		t.Errorf("listing = %+v", list)
	}
	res = r.exec(alice, `cat 'c\d'; rm *`, obj{"session_id": res.SessionID})
	if res.Stdout != "2\n" || len(res.DeletedFiles) != 1 || res.DeletedFiles[0] != "é x" || res.ArtifactDelivery != nil {
		t.Errorf("%+v", res)
	}
	res = r.exec(alice, `i=0; while [ $i -lt 12 ]; do : > "$i\\"; i=$((i+1)); done`)
	if !strings.HasSuffix(res.Stderr, ", and 2 more\n") || res.ArtifactDelivery == nil || res.ArtifactDelivery.Status != "failed" {
		t.Errorf("%+v", res)
	}
}

// An empty file is a file like any other, and its size is said.
func TestEmptyFiles(t *testing.T) {
	r := newRig(t)
	a := r.post(alice, "/exec", obj{"lang": "bash", "code": ": > empty"})
	res := into[CodeResult](t, a, 200)
	if len(res.Files) != 1 || strings.Count(string(a.body), `"size":0,`) != 1 {
		t.Fatalf("made: %s", a.body)
	}
	ref := obj{"id": res.Files[0].ID, "name": "empty", "storage_session_id": res.SessionID}
	if a := r.post(alice, "/exec", obj{"lang": "bash", "code": "true", "files": []obj{ref}}); strings.Count(string(a.body), `"size":0,`) != 1 {
		t.Errorf("inherited: %s", a.body)
	}
	for _, p := range []string{"/files/" + res.SessionID, "/sessions/" + res.SessionID + "/objects/" + res.Files[0].ID} {
		if a := r.get(alice, p); strings.Count(string(a.body), `"size":0,`) != 1 {
			t.Errorf("%s: %s", p, a.body)
		}
	}
	if a := r.get(alice, "/download/"+res.SessionID+"/"+res.Files[0].ID); a.status != 200 || len(a.body) != 0 || a.header.Get("Content-Length") != "0" {
		t.Errorf("download: %d %v", a.status, a.header)
	}
	if a := r.send(alice, "/upload", csv("none", "")); a.status != 200 || !strings.Contains(string(a.body), `"size":0`) {
		t.Errorf("upload: %s", a.body)
	}
}

func TestOutputIsCapped(t *testing.T) {
	r := newRig(t)
	r.limits.StdoutBytes, r.limits.StderrBytes = 10, 5
	res := r.exec(alice, `i=0; while [ $i -lt 20000 ]; do echo 12345678é; i=$((i+1)); done; printf abcdefgh >&2; echo done > f`)
	if res.Stdout != "12345678é" || *res.Status != "OL" || *res.Message != "stdout length exceeded" || *res.Code != 0 || fileNames(res.Files) != "f" {
		t.Errorf("%+v", res)
	}
	if res.Stderr != "abcde\n[stdout truncated: kept 10 of 220000 bytes]\n[stderr truncated: kept 5 of 8 bytes]\n" {
		t.Errorf("stderr = %q", res.Stderr)
	}
	res = r.exec(alice, "printf abcdefgh >&2")
	if res.Status == nil || *res.Status != "OL" || *res.Message != "stderr length exceeded" || res.Stderr != "abcde\n[stderr truncated: kept 5 of 8 bytes]\n" {
		t.Errorf("stderr alone: %+v", res)
	}
	r.limits.StdoutBytes = 9
	if res = r.exec(alice, "echo 12345678é"); res.Stdout != "12345678" {
		t.Errorf("a character cut in two = %q", res.Stdout)
	}
}

func TestOutputIsUTF8(t *testing.T) {
	r := newRig(t)
	res := r.exec(alice, `printf 'a\377b\000c\033[1m<&>é'`)
	if res.Stdout != "a\ufffdb\x00c\x1b[1m<&>é" {
		t.Errorf("stdout = %q", res.Stdout)
	}
}

func TestDeletedFiles(t *testing.T) {
	r := newRig(t)
	one := r.exec(alice, "echo 1 > a; echo 2 > b")
	two := r.exec(alice, "rm a", obj{"files": one.Files})
	if !slices.Equal(two.DeletedFiles, []string{"a"}) || fileNames(two.Files) != "(b)" {
		t.Errorf("%+v", two)
	}
}

func TestCachesAreNoArtifacts(t *testing.T) {
	r := newRig(t)
	res := r.exec(alice, "mkdir -p __pycache__ .git node_modules/x sub/.cache; for f in __pycache__/a m.pyc .git/b node_modules/x/c sub/.cache/d .env plain.xsd; do echo > $f; done; ln -s /etc/passwd link")
	if got := fileNames(res.Files); got != ".env plain.xsd" {
		t.Errorf("files = %s", got)
	}
}

// The body decides, nothing else that the caller wrote.
func TestOnlyTheBodyCounts(t *testing.T) {
	r := newRig(t)
	res := into[CodeResult](t, r.post(alice, "/v1/exec?code=echo+evil&lang=c&session_id=x", obj{
		"lang": "bash", "code": "echo good", "apiKey": "sk-very-secret", "user_id": "root", "entity_id": "any thing!",
		"intent": obj{"a": []int{1}}, "org": "evil", "runtime_session_hint": strings.Repeat("x ", 300), "files": nil,
	}), 200)
	if res.Stdout != "good\n" {
		t.Errorf("%+v", res)
	}
	if sb := r.shells.live()[0]; sb.Metadata.Tenant != "acme" || sb.Metadata.User != "alice" {
		t.Errorf("metadata = %+v", sb.Metadata)
	}
	r.server.Close() // waits for the line
	if s := r.log.String(); strings.Contains(s, "sk-very-secret") || strings.Contains(s, "evil") || !strings.Contains(s, "org=acme") {
		t.Errorf("log:\n%s", s)
	}
}

func TestTimeoutIsClamped(t *testing.T) {
	r := newRig(t)
	for wish, want := range map[any]int64{
		nil: 20_000, 5000: 5000, 1: 1000, 1e300: 300_000, -5: 20_000, "7000": 7000, "soon": 20_000, 2500.9: 2500,
	} {
		r.exec(alice, "true", obj{"timeout": wish})
		if got := r.asked[len(r.asked)-1].Limits.WallMS; got != want {
			t.Errorf("timeout %v = %d ms, want %d", wish, got, want)
		}
	}
}

func TestPolicies(t *testing.T) {
	r := newRig(t)
	r.admit = func(q policy.Request) (policy.Limits, error) {
		if strings.Contains(q.Code, "forbidden") {
			return policy.Limits{}, &host.PolicyError{Policy: "p", Code: "word_not_allowed", Reason: "that word is not allowed"}
		}
		l := q.Limits
		l.StdoutBytes = 3
		l.WallMS = 1 << 40 // wider: has no effect
		return l, nil
	}
	e := into[obj](t, r.post(rich, "/exec", obj{"lang": "bash", "code": "forbidden"}), 403)
	if e["code"] != "word_not_allowed" || e["error"] != "that word is not allowed" {
		t.Errorf("%v", e)
	}
	if r.shells.created.Load() != 0 {
		t.Error("a denied run leased a sandbox")
	}
	if res := r.exec(alice, "echo 12345", obj{"args": []string{"x"}}); res.Stdout != "123" {
		t.Errorf("%+v", res)
	}
	q := r.asked[1]
	if q.Org != "acme" || q.User != "alice" || q.Via != "bearer" || q.Language != "bash" || q.Config != "main" || q.CodeBytes != 10 ||
		q.Network != "none" || !slices.Equal(q.Args, []string{"x"}) || q.Limits.ChangedFiles != 100 || q.Session != "" {
		t.Errorf("request = %+v", q)
	}
}

// Run and End are the interpreter without money.
func TestRunForSubsystems(t *testing.T) {
	r := newRig(t)
	ctx := t.Context()
	res, err := r.Run(ctx, "acme", &CodeRun{Lang: "bash", Code: "echo hi", UserID: "somebody"})
	if err != nil || res.Stdout != "hi\n" {
		t.Fatalf("Run = %+v, %v", res, err)
	}
	if sb := r.shells.live()[0]; sb.Metadata.Tenant != "acme" || sb.Metadata.User != "" {
		t.Errorf("metadata = %+v", sb.Metadata)
	}
	if n := len(r.usage()); n != 0 {
		t.Errorf("%d records of usage, want none", n)
	}
	for _, in := range []*CodeRun{{Lang: "bash"}, {Code: "x"}, {Lang: "bash", Code: "x", SessionID: "a b"}, {Lang: "bash", Code: "x", Args: []string{"a\x00b"}}} {
		_, err := r.Run(ctx, "acme", in)
		if he, ok := errors.AsType[*host.HTTPError](err); !ok || he.Status != 400 {
			t.Errorf("Run(%+v) = %v", in, err)
		}
	}
	if _, err := r.Run(ctx, "", &CodeRun{Lang: "bash", Code: "true"}); err == nil {
		t.Error("Run without an organisation succeeded")
	}
	if err := r.End(ctx, "evil", res.SessionID); err != nil || len(r.shells.live()) != 1 {
		t.Errorf("End by somebody else = %v, %d left", err, len(r.shells.live()))
	}
	for range 2 {
		if err := r.End(ctx, "acme", res.SessionID); err != nil || len(r.shells.live()) != 0 {
			t.Errorf("End = %v, %d left", err, len(r.shells.live()))
		}
	}
	canceled, cancel := context.WithCancel(ctx)
	cancel()
	if _, err := r.Run(canceled, "acme", &CodeRun{Lang: "bash", Code: "true"}); !errors.Is(err, context.Canceled) {
		t.Errorf("Run with an ended context = %v", err)
	}
	if n := len(r.shells.live()); n != 0 {
		t.Errorf("%d sandboxes left", n)
	}
}

func TestResultMarshalsForOldClients(t *testing.T) {
	b, err := json.Marshal(&CodeResult{SessionID: "s", Files: []CodeFile{}})
	if want := `{"session_id":"s","stdout":"","stderr":"","files":[],"code":null,"signal":null,"status":null,"message":null,"wall_time":0}`; err != nil || string(b) != want {
		t.Errorf("%s, %v", b, err)
	}
}
