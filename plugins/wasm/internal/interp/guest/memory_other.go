//go:build unix && !linux

package guest

func adviseHuge([]byte) {}
