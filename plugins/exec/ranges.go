package exec

import (
	"fmt"
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
	// The last 0 bytes are in no file, and neither are the last of one that is empty: the
	// library takes them for a part that ends before it begins.
	suffix, ok := strings.CutPrefix(strings.TrimSpace(spec), "-")
	if n, err := strconv.ParseInt(strings.TrimSpace(suffix), 10, 64); ok && err == nil && (n == 0 || size == 0) {
		h.Set("Range", fmt.Sprintf("bytes=%d-", size))
	}
}
