package quickjs

import (
	"bytes"
	"strings"
)

// originalPosition finds the last mapping of a source map at or before a
// position in generated code. Positions count from 1; the given one is returned
// when the mappings say nothing of it. What is wrong in them is passed over.
func originalPosition(mappings []byte, line, column int) (int, int) {
	toLine, toColumn := line, column
	var sourceLine, sourceColumn int
	n := 1
	for group := range bytes.SplitSeq(mappings, []byte{';'}) {
		if n > line {
			break
		}
		generated := 0
		first := true
		for segment := range bytes.SplitSeq(group, []byte{','}) {
			var d [4]int
			if decodeVLQ(segment, d[:]) < len(d) {
				continue
			}
			generated += d[0]
			sourceLine += d[2]
			sourceColumn += d[3]
			if n == line && (first || generated < column) {
				toLine, toColumn = sourceLine+1, sourceColumn+1
				first = false
			}
		}
		n++
	}
	return toLine, toColumn
}

const vlqDigits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"

// decodeVLQ decodes the first numbers of a segment into out and returns how many
// there are, none if it is malformed.
func decodeVLQ(segment []byte, out []int) (n int) {
	value, shift := 0, 0
	for i := range len(segment) {
		d := strings.IndexByte(vlqDigits, segment[i])
		if d < 0 || shift > 30 {
			return 0
		}
		value |= d & 31 << shift
		if shift += 5; d&32 != 0 {
			continue
		}
		if n == len(out) {
			return n
		}
		out[n] = value >> 1
		if value&1 != 0 {
			out[n] = -out[n]
		}
		n++
		value, shift = 0, 0
	}
	return n
}
