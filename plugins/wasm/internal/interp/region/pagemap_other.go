//go:build unix && !linux

package region

import "errors"

// Pagemap tells which pages of the process were touched. On this system nothing
// does.
type Pagemap struct{}

// OpenPagemap always fails.
func OpenPagemap() (*Pagemap, error) {
	return nil, errors.New("this system does not tell which memory was touched")
}

// Close does nothing.
func (*Pagemap) Close() error { return nil }

func (*Pagemap) touched([]byte, func([]byte)) bool { return false }

func (*Pagemap) copied([]byte, func([]byte)) bool { return false }
