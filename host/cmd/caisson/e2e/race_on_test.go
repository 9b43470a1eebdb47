//go:build race

package e2e

// raceDetector: the tests run under it, and then so does the program. A race
// ends it with code 66, which no test expects.
const raceDetector = true
