// Package testcache says where tests keep compiled interpreters: all packages in one
// place, since to compile each takes up to a minute. Entries are guarded by their
// digests, so sharing them between packages and runs is safe.
package testcache

import (
	"fmt"
	"os"
	"path/filepath"
)

// Variable names the directory of all caches of tests; the Makefile sets it.
const Variable = "CAISSON_TEST_CACHE"

// Dir is the cache directory of this plugin, where a server whose cache is the
// directory of Variable keeps it, too. Without it, it is one for this user.
func Dir() string {
	if dir := os.Getenv(Variable); dir != "" {
		return filepath.Join(dir, "wasm")
	}
	return filepath.Join(os.TempDir(), fmt.Sprintf("caisson-test-code-%d", os.Getuid()))
}
