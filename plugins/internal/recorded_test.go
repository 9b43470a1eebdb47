// Package internal_test holds no code: it checks that what was recorded of the real
// daemon and providers is tested.
package internal_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// recorded is one fact that was seen on the wire, and the test that holds the fake
// daemon, the adapter or both to it. The test's text contains holds, which is empty where
// the test is about nothing else.
type recorded struct {
	fact, test, holds string
}

// daemonHTTP are the plain routes of the daemon.
var daemonHTTP = []recorded{
	{"health needs no token and is 204", "envdfake.TestHTTP", `"/health", nil, []string{"X-Access-Token", "wrong"}, 204`},
	{"metrics", "envdfake.TestHTTP", `"/metrics"`},
	{"metrics, as the adapter reads them", "envd.TestMetrics", "MemoryTotal"},
	{"variables", "envdfake.TestHTTP", `"/envs"`},
	{"a file's headers", "envdfake.TestHTTP", "Content-Disposition"},
	{"a range", "envdfake.TestHTTP", "206"},
	{"compressed files have no length", "envdfake.TestHTTP", `"Accept-Encoding", "gzip"`},
	{"an upload is answered in JSON as text/plain", "envdfake.TestHTTP", "text/plain"},
	{"HEAD is 405", "envdfake.TestHTTP", `"HEAD", "/health", nil, nil, 405`},
	{"a missing path", "envdfake.TestHTTP", `path '/mnt/absent' does not exist`},
	{"a dangling link", "envdfake.TestHTTP", `"dangling", "GET"`},
	{"a directory is read", "envdfake.TestHTTP", `"directory", "GET"`},
	{"a directory is written", "envdfake.TestHTTP", "write over a directory"},
	{"no path", "envdfake.TestHTTP", `"no path"`},
	{"a parent that is a file is read", "envdfake.TestHTTP", `"below a file", "GET"`},
	{"a parent that is a file is written", "envdfake.TestHTTP", "error ensuring directories: path is a file"},
	{"an unknown account reads", "envdfake.TestHTTP", `"unknown account"`},
	{"an unknown account writes", "envdfake.TestRefusedUploads", `"unknown account"`},
	{"an unknown Basic account reads", "envdfake.TestHTTP", "unknown Basic account"},
	{"an unknown Basic account writes", "envdfake.TestRefusedUploads", "unknown Basic account"},
	{"a wrong token reads", "envdfake.TestHTTP", `"wrong token"`},
	{"a wrong token writes", "envdfake.TestRefusedUploads", `"wrong token"`},
	{"no token and no signature", "envdfake.TestSignatures", "missing signature query parameter"},
	{"a bad signature", "envdfake.TestSignatures", "invalid signature"},
	{"an old signature", "envdfake.TestSignatures", "signature is already expired"},
	{"signatures verify", "envdfake.TestSignatures", `200, "x"`},
	{"another content type, or none", "envdfake.TestHTTP", "unsupported content type"},
	{"raw content without a path", "envdfake.TestHTTP", "raw without path"},
	{"several parts to one path: the first is written", "envdfake.TestHTTP", "the first of two parts"},
	{"what cannot be sought in", "envdfake.TestRefusedUploads", "seeker can't seek"},
	{"accounts are no check of permissions", "envdfake.TestAccounts", "below a directory of root's"},
}

// daemonBehaviour is how the daemon's services behave.
var daemonBehaviour = []recorded{
	{"the order of stdout and stderr is not defined", "envd.TestOrder", ""},
	{"a missing binary is 127", "envdfake.TestEnds", "no-such-command"},
	{"what cannot be executed is 126", "envdfake.TestEnds", "126"},
	{"no command is 127", "envdfake.TestGroups", "no command"},
	{"a command that cannot be forked is repeated whole", "envdfake.TestRefusedStarts", "all of it comes back"},
	{"a directory that is missing", "envdfake.TestRefusedStarts", "cwd '/mnt/absent' does not exist"},
	{"input is open unless it is refused", "envdfake.TestCalls", "a pipe that stays open"},
	{"refused input is at its end", "envdfake.TestEnds", `command("cat")`},
	{"groups and sessions of programs", "envdfake.TestGroups", "leads"},
	{"a group that setsid made is killed whole, also after a deadline", "envd.TestTreesDie", "quiet"},
	{"an end by a signal", "envdfake.TestEnds", "signal: killed"},
	{"the end waits for whoever holds the output", "envdfake.TestDeadlines", "before everybody closed the output"},
	{"a deadline kills the program alone", "envdfake.TestDeadlines", "the grandchild alone"},
	{"the adapter sends no deadline of its own", "envd.TestHeaders", "Connect-Timeout-Ms"},
	{"leaving kills nothing", "envdfake.TestDeadlines", "a program that was left"},
	{"the adapter kills what it leaves", "envd.TestTreesDie", "a cancelled run"},
	{"an end is remembered", "envdfake.TestCalls", "an end is remembered"},
	{"nobody to follow", "envdfake.TestCalls", "process with pid 1 not found"},
	{"nobody chosen", "envdfake.TestCalls", `"nobody chosen"`},
	{"tags find one of several", "envdfake.TestTags", "want 1"},
	{"other signals", "envdfake.TestCalls", `"another signal"`},
	{"a signal after the end", "envdfake.TestCalls", `"signal after the end"`},
	{"output after a signal is lost, the exit code is not", "envdfake.TestAfterSignal", "late"},
	{"input of the wrong kind", "envdfake.TestCalls", "typing to a pipe"},
	{"input after the end", "envdfake.TestCalls", `"input after the end"`},
	{"input where none is", "envdfake.TestCalls", `"input where none is"`},
	{"no input at all", "envdfake.TestCalls", `"no input"`},
	{"input waits for room", "envdfake.TestFullPipe", "300 kB"},
	{"closing what is closed", "envdfake.TestCalls", "close what is closed"},
	{"closing a terminal's input", "envdfake.TestCalls", "close a terminal's"},
	{"resizing what is no terminal", "envdfake.TestCalls", "resize a pipe"},
	{"sizes do not wrap", "envd.TestTerminals", "70000"},
	{"stat: missing", "envdfake.TestFilesystem", "stat missing"},
	{"stat: links", "envdfake.TestFilesystem", "/mnt/dirlink"},
	{"stat: links that lead nowhere", "envdfake.TestFilesystem", "/mnt/loop"},
	{"stat: devices and pipes", "envdfake.TestFilesystem", "/dev/null"},
	{"make: new", "envdfake.TestFilesystem", "make with parents"},
	{"make: existing, root, trailing slash", "envdfake.TestFilesystem", "make, trailing slash"},
	{"make: over a file", "envdfake.TestFilesystem", "make over a file"},
	{"make: below a file", "envdfake.TestFilesystem", "make below a file"},
	{"list: empty", "envdfake.TestWire", `ListDir", ` + "`" + `{"path":"/mnt/empty"}`},
	{"list: a file, missing, a loop", "envdfake.TestFilesystem", "list a loop"},
	{"list: through a link", "envdfake.TestFilesystem", "/mnt/dirlink/out"},
	{"move: missing, parents, onto a directory", "envdfake.TestFilesystem", "move a file onto a directory"},
	{"remove: missing", "envdfake.TestFilesystem", "remove missing"},
	{"remove: a link", "envdfake.TestFilesystem", "removing a link removed its target"},
	{"remove: a directory with content", "envdfake.TestFilesystem", "a directory with content"},
	{"an unknown Basic account", "envdfake.TestAccounts", "CodeUnauthenticated"},
	{"watch: a file, missing", "envdfake.TestFilesystem", "watch a file"},
	{"watch: a rename is two events, new directories are watched", "envd.TestWatch", "create sub/deep"},
	{"an unknown method", "envdfake.TestWire", "404 page not found"},
}

// errorMap are the tables of kinds, and what the protocol's client hides.
var errorMap = []recorded{
	{"control plane, by status and class of call", "fault.TestControl", "release ratio"},
	{"control plane, as the client sees it", "control.TestErrorMap", ""},
	{"no answer", "control.TestNoAnswer", ""},
	{"data plane, by status", "fault.TestData", "cube says gone"},
	{"codes of the protocol", "fault.TestRPC", ""},
	{"answers of gateways under the protocol, unary and streams", "envd.TestErrorsUnderTheProtocol", ""},
	{"a stream without its end", "envd.TestLost", ""},
}

// quirks are known bugs and oddities, by their number in the list.
var quirks = []recorded{
	{"1 grandchildren outlive a deadline", "envd.TestTreesDie", "Timeout"},
	{"2 leaving leaves programs running", "envd.TestTreesDie", "a cancelled run"},
	{"3 a stream's deadline kills the program", "envd.TestTerminals", "Connect-Timeout-Ms"},
	{"4 output after a signal is lost", "envd.TestTreesDie", "SendSignal"},
	{"5 tags", "envdfake.TestTags", "want 1"},
	{"6 a keep-alive of 0", "envdfake.TestKeepAlive", `"Keepalive-Ping-Interval", "0"`},
	{"6 the adapter's is constant", "envd.TestHeaders", `"50"`},
	{"7 a deadline of 0", "envd.TestPastDeadline", ""},
	{"8 fork errors repeat the command", "fault.TestEchoedCommand", ""},
	{"8 as the adapter tells it", "envd.TestHugeArgument", "800"},
	{"9 no exit code in JSON", "envd.TestJSON", ""},
	{"10 making what exists", "envd.TestMakeDirTwice", ""},
	{"11 removing what is missing", "envd.TestRemoveAbsent", ""},
	{"12 links are told as what they lead to", "envd.TestOddFiles", "Symlink"},
	{"13 accounts are no check of permissions", "envdfake.TestAccounts", "below a directory of root's"},
	{"14 reads of pipes and devices", "envd.TestOddFiles", "Mkfifo"},
	{"15 raw uploads", "envd.TestUploads", ""},
	{"16 the type of an upload's answer", "envdfake.TestHTTP", "an upload is answered as"},
	{"17 a timeout is always sent", "e2b.TestCreateBody", "timeout"},
	{"18 connecting never shortens", "e2b.TestKeepAlive", ""},
	{"19 keeping a paused one alive", "e2b.TestKeepAlive", ""},
	{"20 paused or gone", "envd.TestPausedOrGone", ""},
	{"21 resuming what exists is 404 or 500", "e2b.TestConnect", "500"},
	{"23 one protocol, bounded retries", "envd.TestRetries", ""},
	{"24 connecting has a body", "controlfake.TestStrict", "no body when connecting"},
	{"25 no token", "e2b.TestNoToken", ""},
	{"26 tokens on other ports", "e2b.TestPorts", ""},
	{"27 untagged templates", "e2b.TestTemplates", "untagged"},
	{"28 unknown builds are 400", "fault.TestControl", "unknown build"},
	{"29 an alias is no id", "controlfake.TestStrict", "an alias as an id"},
	{"30 resuming right after pausing", "cube.TestSlowPause", ""},
	{"31 paused again after connecting", "cube.TestRelapse", ""},
	{"32 stale routes", "envd.TestRetries", ""},
	{"33 token failures", "cube.TestGateway", "a token that is refused"},
	{"34 lost metadata", "cube.TestLostMetadata", ""},
	{"34 lost from listings", "cube.TestListAbsence", ""},
	{"35 filters by state", "cube.TestFilters", ""},
	{"36 dropped variables", "cube.TestDroppedEnv", ""},
	{"37 no daemon", "cube.TestNoDaemon", ""},
	{"38 a node that failed", "cube.TestGateway", "a node that failed"},
	{"39 deleting a paused one", "cube.TestDeletePaused", ""},
	{"40 late events", "envd.TestQuietProgram", ""},
	{"41 a daemon that cannot be reached", "cube.TestNoDaemon", ""},
	{"42 credentials on every call", "envd.TestHeaders", "BasicAuth"},
	{"43 a page instead of a stream", "cube.TestGateway", "a page instead of a stream"},
	{"44 fixed metadata keys", "e2b.TestMetadata", ""},
	{"45 snapshots without variables", "e2b.TestSnapshots", ""},
	{"46 a desktop that is down", "envd.TestWebSocket", "a desktop that is down"},
	{"47 a desktop at another path", "envd.TestWebSocket", "another path"},
	{"48 ports that open late", "envd.TestReady", ""},
	{"49 answers without a bound", "envd.TestLimitedAnswers", ""},
	{"50 routes of another version", "e2b.TestVersions", ""},
	{"51 routes that are not there", "fault.TestControl", "no route, validated"},
}

// TestRecorded: every fact of these tables has its test.
func TestRecorded(t *testing.T) {
	dirs := map[string]string{
		"envd": "envd", "envdfake": "envdfake", "fault": "envd/fault", "control": "control", "controlfake": "controlfake", "e2b": "../e2b", "cube": "../cube",
	}
	tests := make(map[string]string)
	for name, dir := range dirs {
		files, err := filepath.Glob(filepath.Join(dir, "*_test.go"))
		if err != nil || len(files) == 0 {
			t.Fatalf("%s: %v, %v", dir, files, err)
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			set := token.NewFileSet()
			parsed, err := parser.ParseFile(set, file, text, 0)
			if err != nil {
				t.Fatal(err)
			}
			for _, d := range parsed.Decls {
				if f, ok := d.(*ast.FuncDecl); ok && f.Recv == nil {
					tests[name+"."+f.Name.Name] = string(text[set.Position(f.Pos()).Offset:set.Position(f.End()).Offset])
				}
			}
		}
	}
	for _, table := range [][]recorded{daemonHTTP, daemonBehaviour, errorMap, quirks} {
		for _, row := range table {
			switch body, ok := tests[row.test]; {
			case !ok:
				t.Errorf("%s: there is no %s", row.fact, row.test)
			case row.holds != "" && strings.Contains("func Test", row.holds):
				t.Errorf("%s: %q is in every %s", row.fact, row.holds, row.test)
			case !strings.Contains(body, row.holds):
				t.Errorf("%s: %s does not hold %q", row.fact, row.test, row.holds)
			}
		}
	}
}
