package mcp

import (
	"encoding/json"
	"math"
	"strconv"

	"github.com/caisson-run/caisson/plugins/exec/internal/shallow"
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
)

// maxID is the largest number whose neighbours are told from it wherever numbers of JSON
// are floating-point ones, as in the SDK.
const maxID = 1<<53 - 1

// wrongID is the answer to a message, or a batch, with an id that the SDK would not give
// back as it came: it makes whole numbers of 64 bits of all, while the protocol wants a
// string or an integer. It is nil where there is none. The message is valid JSON.
func wrongID(message []byte) []byte {
	const why = "the id is neither a string nor an integer of up to 53 bits"
	if message[0] == '[' {
		each, _ := shallow.Elements(message, math.MaxInt)
		for _, m := range each {
			if !echoed(idOf(m)) {
				return complaint(jsonrpc.CodeInvalidRequest, why, nil)
			}
		}
		return nil
	}
	if id := idOf(message); !echoed(id) {
		return complaint(jsonrpc.CodeInvalidRequest, why, id)
	}
	return nil
}

// idOf is the id of a message, if it has one. Its name is exact, as in the SDK: the decoder
// of encoding/json would take "ID" for it as well.
func idOf(message []byte) json.RawMessage {
	m, _ := shallow.Members(message, "id")
	return m["id"]
}

// echoed reports whether an id comes back as what it is. Of what is no number others judge.
func echoed(id json.RawMessage) bool {
	if len(id) == 0 || id[0] != '-' && (id[0] < '0' || id[0] > '9') {
		return true
	}
	f, err := strconv.ParseFloat(string(id), 64)
	return err == nil && f == math.Trunc(f) && math.Abs(f) <= maxID
}
