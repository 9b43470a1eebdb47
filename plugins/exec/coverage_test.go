package exec

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// covered says which tests hold each edge case of the wire reference (§8), by its
// number there, beside the row of that number in clienttest, which meets the built
// server. A name without a directory is a test of this package.
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
	10: "TestMissingInputsAreNamed TestForeignIsAbsent",
	11: "TestRefsIntoSeveralSessions TestRefsAcrossConfigs",
	12: "TestSessionsShareFilesAndNothingElse",
	13: "TestRefsIntoSeveralSessions TestContentIsVerified TestDownloadOfAChangingFile",
	14: "TestRefsIntoSeveralSessions",
	15: "TestUploadQuota",
	16: "TestBatch",
	17: "TestSessionsShareFilesAndNothingElse",
	18: "../../host/cmd/caisson/e2e.TestDockerLibraries",
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
	39: "TestDownload TestKeepAliveIsFlushed TestStreamedRun",
	40: "TestNotLetIn",
	41: "TestKeyOwnership",
	42: "../../host/admission.TestAdmit",
	43: "TestOnlyTheBodyCounts TestDecode",
	44: "TestLanguages",
	45: "TestArgsAreVerbatim",
	46: "../../host/cmd/caisson/e2e.TestDockerLanguages",
	47: "TestProgramIsByteExact",
	48: "TestProgramIsByteExact",
	49: "TestSessionsShareFilesAndNothingElse",
	50: "TestRunsOfOneSessionTakeTurns",
	51: "TestProgramGathersCalls clienttest.TestProgramsOfClients",
	52: "TestProgramMeetsErrors clienttest.TestProgramsOfClients",
	53: "TestProgramExpires TestProgramsEndWithTheEntry",
	54: "TestContinuationTwice TestContinuationsAtOnce",
	55: "TestProgramsInPython",
	56: "TestProgramsAreCanceled clienttest.TestProgramsOfClients",
	57: "TestNamesOfTools",
	58: "TestProgramsInPython",
	59: "TestTimeoutIsClamped TestAliases TestRequestsForPrograms",
	60: "TestOnlyTheBodyCounts",
	61: "TestOutputIsUTF8 TestFullQueue",
	62: "TestFailuresOfPrograms",
	63: "TestDelete",
	64: "TestDriftAndCase",
	65: "TestOnlyTheBodyCounts",
	66: "TestParallelRunsCannotShareACent",
	67: "TestFreeRunsAreNotGated ../../host.TestFee",
	68: "TestFailuresBeforeTheStart",
	69: "TestHangUp TestStreamedHangUp",
	70: "TestTooLarge TestUploadsAreStreamed TestLargeUploadsNeedNoMemory",
	71: "TestNotAForm TestUploadFields",
	72: "TestDownload TestGoldenExchanges",
	73: "TestSessionsThatAreNotThere TestDownloadsThatAreNotThere",
	74: "TestOutputIsUTF8",
}

// notLive are the rows that need a clock, a failure, money, an issuer or another
// image than clienttest's server has, and those of programs that call tools, where the
// published clients are the callers.
var notLive = []int{10, 15, 18, 29, 30, 42, 46, 51, 52, 53, 54, 55, 56, 57, 58, 59, 66, 67, 68}

// Every edge case is held by tests that exist.
func TestEdgeCasesAreCovered(t *testing.T) {
	have := make(map[string]bool)
	live := make(map[int]bool)
	for _, dir := range []string{".", "internal/names", "internal/formdata", "clienttest", "../../host", "../../host/admission", "../../host/cmd/caisson/e2e"} {
		files, err := filepath.Glob(dir + "/*_test.go")
		if err != nil || len(files) == 0 {
			t.Fatalf("no tests in %s: %v", dir, err)
		}
		prefix := dir + "."
		if dir == "." {
			prefix = ""
		}
		for _, f := range files {
			parsed, err := parser.ParseFile(token.NewFileSet(), f, nil, 0)
			if err != nil {
				t.Fatal(err)
			}
			for _, d := range parsed.Decls {
				if fn, ok := d.(*ast.FuncDecl); ok && fn.Recv == nil {
					have[prefix+fn.Name.Name] = true
				}
			}
			if dir == "clienttest" {
				rowsOf(parsed, live)
			}
		}
	}
	for row := 1; row < len(covered); row++ {
		tests := strings.Fields(covered[row])
		if len(tests) == 0 {
			t.Errorf("edge case %d has no test", row)
		}
		for _, name := range tests {
			if !have[name] {
				t.Errorf("edge case %d: no test %s", row, name)
			}
		}
		if !live[row] && !slices.Contains(notLive, row) {
			t.Errorf("edge case %d is no row of clienttest", row)
		}
	}
	if len(covered) != 75 {
		t.Errorf("%d edge cases, want 74", len(covered)-1)
	}
}

// rowsOf finds the numbers of the rows of a file: the first element of each member of
// a []row.
func rowsOf(f *ast.File, live map[int]bool) {
	ast.Inspect(f, func(n ast.Node) bool {
		list, ok := n.(*ast.CompositeLit)
		if !ok {
			return true
		}
		if array, ok := list.Type.(*ast.ArrayType); !ok || fmt.Sprint(array.Elt) != "row" {
			return true
		}
		for _, e := range list.Elts {
			if one, ok := e.(*ast.CompositeLit); ok && len(one.Elts) == 3 {
				if number, ok := one.Elts[0].(*ast.BasicLit); ok {
					if n, err := strconv.Atoi(number.Value); err == nil {
						live[n] = true
					}
				}
			}
		}
		return false
	})
}
