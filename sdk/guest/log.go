package guest

// Level is how much a message matters, in the numbers of the ABI.
type Level uint32

// Levels a host accepts; it treats any other as LevelInfo.
const (
	LevelTrace Level = 1 + iota
	LevelDebug
	LevelInfo
	LevelWarn
	LevelError
)
