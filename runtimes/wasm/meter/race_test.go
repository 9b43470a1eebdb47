//go:build race

package meter

// raceEnabled says that the race detector slows everything down tenfold. There is
// little for it to find here: the package has no goroutines.
const raceEnabled = true
