package backend

// Every backend process is told in these environment variables where it may
// keep things. Both are absolute paths of directories that exist and belong to
// the plugin.
const (
	// EnvData is a private directory that outlives the process.
	EnvData = "CAISSON_PLUGIN_DATA"
	// EnvCache is for what can be made again. Several processes may share it.
	EnvCache = "CAISSON_PLUGIN_CACHE"
)
