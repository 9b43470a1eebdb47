package exec

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"strings"
	"testing"
)

// covered says which test holds each edge case of the wire reference (§8), by its
// number there. A name without a package is a test of this one. "later" marks
// what belongs to programmatic calls, which answer 501 for now.
var covered = [...]string{
	1:  "TestUploadThenRun",
	2:  "TestUploadNames TestDownload TestGoldenExchanges",
	3:  "TestUploadNames internal/formdata.TestFileNamesSurvive",
	4:  "TestUploadNames internal/formdata.TestFileNamesSurvive",
	5:  "TestUploadNames TestMissingInputsAreNamed TestDownloadsThatAreNotThere internal/names.FuzzNames",
	6:  "TestSeveralRefsOfOneName",
	7:  "TestSeveralRefsOfOneName",
	8:  "TestUploadThenRun",
	9:  "TestMissingInputsAreNamed",
	10: "TestMissingInputsAreNamed",
	11: "TestRefsIntoSeveralSessions TestRefsAcrossConfigs",
	12: "TestSessionsShareFilesAndNothingElse",
	13: "TestRefsIntoSeveralSessions TestContentIsVerified TestDownloadOfAChangingFile",
	14: "TestRefsIntoSeveralSessions",
	15: "TestUploadQuota",
	16: "TestBatch",
	17: "TestSessionsShareFilesAndNothingElse", // the absolute path is the backends' conformance kit's
	18: "backend",                              // the embedded interpreter's
	19: "TestSessionsShareFilesAndNothingElse TestListing",
	20: "TestFailuresOfPrograms",
	21: "TestCachesAreNoArtifacts TestUploadNames",
	22: "TestSessionsShareFilesAndNothingElse TestDownload",
	23: "TestCachesAreNoArtifacts TestDownloadsThatAreNotThere TestListing",
	24: "TestFailuresOfPrograms",
	25: "TestOutputIsCapped",
	26: "TestSessionsThatAreNotThere",
	27: "TestFailuresOfPrograms",
	28: "TestLongRunsKeepTheConnectionAlive TestKeepAliveIsFlushed",
	29: "TestLateFailures",
	30: "TestFullQueue TestTurnsAreNotWaitedForLong",
	31: "TestListing",
	32: "TestListing",
	33: "TestListing",
	34: "TestHello",
	35: "TestHello",
	36: "TestDownload",
	37: "TestDownloadsThatAreNotThere",
	38: "TestDownloadsInParallel",
	39: "TestDownload TestKeepAliveIsFlushed",
	40: "TestNotLetIn",
	41: "TestKeyOwnership",
	42: "platform", // host/admission's
	43: "TestOnlyTheBodyCounts TestDecode",
	44: "TestLanguages",
	45: "TestArgsAreVerbatim",
	46: "platform", // the language table's
	47: "TestProgramIsByteExact",
	48: "TestProgramIsByteExact",
	49: "TestSessionsShareFilesAndNothingElse",
	50: "TestRunsOfOneSessionTakeTurns",
	51: "later", 52: "later", 53: "later", 54: "later", 55: "later", 56: "later", 57: "later", 58: "later",
	59: "TestTimeoutIsClamped TestAliases",
	60: "TestOnlyTheBodyCounts",
	61: "TestOutputIsUTF8 TestFullQueue",
	62: "TestFailuresOfPrograms",
	63: "TestDelete",
	64: "TestDriftAndCase",
	65: "TestOnlyTheBodyCounts",
	66: "TestParallelRunsCannotShareACent",
	67: "TestFreeRunsAreNotGated", // the rest is host.Fee's
	68: "TestFailuresBeforeTheStart",
	69: "TestHangUp",
	70: "TestTooLarge TestUploadsAreStreamed TestLargeUploadsNeedNoMemory",
	71: "TestNotAForm TestUploadFields",
	72: "TestDownload TestGoldenExchanges",
	73: "TestSessionsThatAreNotThere TestDownloadsThatAreNotThere",
	74: "TestOutputIsUTF8",
}

// Every edge case is held by tests that exist.
func TestEdgeCasesAreCovered(t *testing.T) {
	have := make(map[string]bool)
	for dir, prefix := range map[string]string{".": "", "internal/names": "internal/names.", "internal/formdata": "internal/formdata."} {
		files, err := os.ReadDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range files {
			if !strings.HasSuffix(f.Name(), "_test.go") {
				continue
			}
			parsed, err := parser.ParseFile(token.NewFileSet(), dir+"/"+f.Name(), nil, 0)
			if err != nil {
				t.Fatal(err)
			}
			for _, d := range parsed.Decls {
				if fn, ok := d.(*ast.FuncDecl); ok && fn.Recv == nil {
					have[prefix+fn.Name.Name] = true
				}
			}
		}
	}
	for row := 1; row < len(covered); row++ {
		tests := strings.Fields(covered[row])
		if len(tests) == 0 {
			t.Errorf("edge case %d has no test", row)
		}
		for _, name := range tests {
			if strings.Contains(name, "Test") || strings.Contains(name, "Fuzz") {
				if !have[name] {
					t.Errorf("edge case %d: no test %s", row, name)
				}
			}
		}
	}
	if len(covered) != 75 {
		t.Errorf("%d edge cases, want 74", len(covered)-1)
	}
}
