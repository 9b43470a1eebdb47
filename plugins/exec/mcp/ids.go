package mcp

import (
	"encoding/json"
	"math"
	"strconv"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
)

// maxID is the largest number whose neighbours are told from it wherever numbers of JSON
// are floating-point ones, as in the SDK.
const maxID = 1<<53 - 1

// wrongID is the answer to a message, or a batch, with an id that the SDK would not give
// back as it came: it makes whole numbers of 64 bits of all, while the protocol wants a
// string or an integer. It is nil where there is none, or no message.
func wrongID(message []byte) []byte {
	type header struct {
		ID json.RawMessage `json:"id"`
	}
	const why = "the id is neither a string nor an integer of up to 53 bits"
	if len(message) > 0 && message[0] == '[' {
		var each []header
		if json.Unmarshal(message, &each) != nil {
			return nil
		}
		for _, m := range each {
			if !echoed(m.ID) {
				return complaint(jsonrpc.CodeInvalidRequest, why, nil)
			}
		}
		return nil
	}
	var m header
	if json.Unmarshal(message, &m) != nil || echoed(m.ID) {
		return nil
	}
	return complaint(jsonrpc.CodeInvalidRequest, why, m.ID)
}

// echoed reports whether an id comes back as what it is. Of what is no number others judge.
func echoed(id json.RawMessage) bool {
	if len(id) == 0 || id[0] != '-' && (id[0] < '0' || id[0] > '9') {
		return true
	}
	f, err := strconv.ParseFloat(string(id), 64)
	return err == nil && f == math.Trunc(f) && math.Abs(f) <= maxID
}
