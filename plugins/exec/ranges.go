package exec

import (
	"errors"
	"net/http"
	"strconv"
	"strings"
)

// oneRange leaves in h the only range that is asked for of a file of so many bytes, or
// none. Several are ignored, as a server may (RFC 9110 §14.2): a file is read from its start,
// so that a list of a few bytes each, in the wrong order, would read it once for each. A
// range of a unit that is not known is ignored as well.
func oneRange(h http.Header, size int64) {
	v := h.Get("Range")
	spec, bytes := strings.CutPrefix(v, "bytes=")
	if v == "" || !bytes || strings.Contains(spec, ",") || len(h.Values("Range")) > 1 {
		h.Del("Range")
		return
	}
	first, last, ok := strings.Cut(spec, "-")
	first, last = atMost(first, size), atMost(last, size)
	// The last 0 bytes are in no file, and neither are the last of one that is empty: the
	// library takes them for a part that ends before it begins.
	if n, err := strconv.ParseInt(last, 10, 64); ok && first == "" && err == nil && (n == 0 || size == 0) {
		first, last = strconv.FormatInt(size, 10), ""
	}
	if ok {
		h.Set("Range", "bytes="+first+"-"+last)
	}
}

// atMost is a position in a range without the space around it, and size if it lies behind
// that: numbers may have any length, which the library takes for none at all.
func atMost(position string, size int64) string {
	position = strings.TrimSpace(position)
	if n, err := strconv.ParseUint(position, 10, 64); errors.Is(err, strconv.ErrRange) || err == nil && n > uint64(size) {
		return strconv.FormatInt(size, 10)
	}
	return position
}
