// Package machine says how much memory there is for this process and what it starts.
package machine

import (
	"os"
)

// Memory is the smaller of the machine's memory and what the process's control groups
// allow, in bytes; 0 where neither can be found out.
func Memory() int64 {
	most := physical()
	if limit := groupLimit(os.ReadFile); limit > 0 && (most == 0 || limit < most) {
		return limit
	}
	return most
}
