package host

import (
	"strconv"
	"strings"
)

// FeeVariable is the environment variable that prices runs; FeeVariable + "_RUN"
// wins over it (docs/operators.md).
const FeeVariable = "CODE_EXEC_FEE_CENTS"

// Fee returns the price of one act in whole cents. It looks for FeeVariable +
// "_" + the act in upper case, then, for the act "run" only, for FeeVariable,
// and answers def when neither says anything usable. 0 means free and not gated.
//
// The unspecific variable does not price other acts: an operator who prices
// runs with it has not asked to be paid for every second a sandbox is held.
//
// A value is a decimal int64 with optional space around it. A negative, empty
// or malformed value is passed over, so that a typing error never makes
// anything free. env is os.LookupEnv in a server; Fee keeps nothing, so a
// caller that asks for each act follows a changed environment.
func Fee(env func(string) (string, bool), act string, def int64) int64 {
	names := [...]string{FeeVariable + "_" + strings.ToUpper(act), FeeVariable}
	n := 1
	if act == string(ActRun) {
		n = 2
	}
	for _, name := range names[:n] {
		if value, ok := env(name); ok {
			if cents, ok := parseCents(value); ok {
				return cents
			}
		}
	}
	return def
}

func parseCents(value string) (int64, bool) {
	value = strings.TrimSpace(value)
	if strings.HasPrefix(value, "-") { // "-0" too: it parses, but nobody means it
		return 0, false
	}
	cents, err := strconv.ParseInt(value, 10, 64)
	return cents, err == nil
}
