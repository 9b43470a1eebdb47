package events

import (
	"mime"
	"net/http"
	"strconv"
	"strings"
)

// Wanted reports whether a request asks for events in the place of JSON: its
// Accept names them, and JSON not before them. Wildcards, which every client of
// JSON sends, are no such wish.
func Wanted(h http.Header) bool {
	var events, json float64
	for _, v := range h.Values("Accept") {
		for _, one := range strings.Split(v, ",") {
			t, params, err := mime.ParseMediaType(one)
			if err != nil {
				continue
			}
			q := 1.0
			if s, ok := params["q"]; ok {
				if q, err = strconv.ParseFloat(s, 64); err != nil || !(q >= 0 && q <= 1) {
					continue
				}
			}
			switch t {
			case ContentType:
				events = max(events, q)
			case "application/json":
				json = max(json, q)
			}
		}
	}
	return events > 0 && events >= json
}
