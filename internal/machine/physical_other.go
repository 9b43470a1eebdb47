//go:build !linux

package machine

func physical() int64 { return 0 }
