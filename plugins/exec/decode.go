package exec

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/caisson-run/caisson/host"
	"github.com/caisson-run/caisson/host/identity"
	"github.com/caisson-run/caisson/plugins/exec/internal/names"
	"github.com/caisson-run/caisson/plugins/exec/internal/shallow"
)

// Bounds of a request beside its size.
const (
	maxLang  = 64
	maxArgs  = 1024
	maxFiles = 1000
	// maxRefBytes bounds each text of an input ref, such as its name.
	maxRefBytes = names.MaxRaw
	// maxArgBytes is Linux's bound of one argument, the NUL at its end left out.
	maxArgBytes = 128<<10 - 1
	// maxArgsBytes bounds all of them together. A language table reads and
	// repeats them within a second and 4 MiB of JSON, where a byte may take six.
	maxArgsBytes = 256 << 10
	// minTimeout and maxTimeout bring odd wishes into a range that the limits of
	// the deployment then narrow.
	minTimeout = 1000
	maxTimeout = 24 * 60 * 60 * 1000
)

// fieldError says what is wrong with one member of a body.
type fieldError struct{ field, rule string }

func (e *fieldError) Error() string { return e.field + " " + e.rule }

// UnmarshalJSON decodes tolerantly, because the body is written by many client
// generations and by models: unknown members are ignored, null is absent, args
// may hold any JSON, and the timeout may be any number. Names are exact: the
// decoder of encoding/json would also take "CODE" for "code".
func (r *CodeRun) UnmarshalJSON(b []byte) error {
	m, err := members(b, runMembers...)
	if err != nil {
		return err
	}
	return r.members(m)
}

// runMembers are those that members reads.
var runMembers = []string{"lang", "code", "session_id", "user_id", "entity_id", "runtime_session_hint", "timeout", "args", "files"}

func (r *CodeRun) members(m map[string]json.RawMessage) (err error) {
	*r = CodeRun{}
	if err := texts(m, member{"lang", &r.Lang}, member{"code", &r.Code}, member{"session_id", &r.SessionID}); err != nil {
		return err
	}
	// What decides nothing is not worth a refusal.
	for _, x := range []member{{"user_id", &r.UserID}, {"entity_id", &r.EntityID}, {"runtime_session_hint", &r.RuntimeSessionHint}} {
		_ = texts(m, x)
	}
	r.Timeout = milliseconds(m["timeout"])
	if r.Args, err = arguments(m["args"]); err != nil {
		return err
	}
	r.Files, err = refs(m["files"])
	return err
}

// UnmarshalJSON decodes an input ref as tolerantly as CodeRun does.
func (f *CodeFile) UnmarshalJSON(b []byte) error {
	m, err := members(b, refMembers...)
	if err != nil {
		return err
	}
	*f = CodeFile{}
	if err := texts(m,
		member{"id", &f.ID}, member{"name", &f.Name},
		member{"storage_session_id", &f.StorageSessionID}, member{"session_id", &f.SessionID},
		member{"kind", &f.Kind}, member{"resource_id", &f.ResourceID}, member{"entity_id", &f.EntityID},
		member{"contentType", &f.ContentType},
	); err != nil {
		return err
	}
	f.Version = integer(m["version"])
	if n := integer(m["size"]); n != nil {
		f.Size = *n
	}
	f.Inherited = string(m["inherited"]) == "true"
	if raw := m["modified_from"]; len(raw) > 0 && raw[0] == '{' {
		var o FileOrigin
		if json.Unmarshal(raw, &o) == nil {
			f.ModifiedFrom = &o
		}
	}
	return nil
}

var refMembers = []string{
	"id", "name", "storage_session_id", "session_id", "kind", "resource_id", "entity_id", "contentType",
	"version", "size", "inherited", "modified_from",
}

// members are those of an object that are named. Of members with the same name the last
// one counts.
func members(b []byte, named ...string) (map[string]json.RawMessage, error) {
	if !json.Valid(b) { // UnmarshalJSON may be called with anything
		return nil, errors.New("is not valid JSON")
	}
	m, err := shallow.Members(b, named...)
	if err != nil {
		return nil, errors.New("must be a JSON object")
	}
	return m, nil
}

// elements are those of an array in a body. field is the member that holds it.
func elements(raw json.RawMessage, field string, most int) ([]json.RawMessage, error) {
	values, err := shallow.Elements(raw, most)
	switch {
	case errors.Is(err, shallow.ErrTooMany):
		return nil, &fieldError{field, fmt.Sprintf("has more than %d elements", most)}
	case err != nil:
		return nil, &fieldError{field, "must be an array"}
	}
	return values, nil
}

func isNull(raw json.RawMessage) bool { return len(raw) == 0 || string(raw) == "null" }

type member struct {
	field string
	p     *string
}

func texts(m map[string]json.RawMessage, members ...member) error {
	for _, x := range members {
		if raw := m[x.field]; !isNull(raw) && json.Unmarshal(raw, x.p) != nil {
			return &fieldError{x.field, "must be a string"}
		}
	}
	return nil
}

// milliseconds reads a number, or a string that holds one. 0 is no wish.
func milliseconds(raw json.RawMessage) int64 {
	f, err := strconv.ParseFloat(strings.Trim(string(raw), `"`), 64)
	if f <= 0 || math.IsNaN(f) || err != nil && !math.IsInf(f, 1) {
		return 0
	}
	return int64(min(max(f, minTimeout), maxTimeout))
}

func integer(raw json.RawMessage) *int64 {
	n, err := strconv.ParseInt(strings.Trim(string(raw), `"`), 10, 64)
	if err != nil {
		return nil
	}
	return &n
}

// arguments turns any JSON into an argument vector: each element of an array is
// one argument, anything else is one by itself. Strings are taken as they are,
// the rest as JSON text.
func arguments(raw json.RawMessage) ([]string, error) {
	if isNull(raw) {
		return nil, nil
	}
	values := []json.RawMessage{raw}
	if raw[0] == '[' {
		var err error
		if values, err = elements(raw, "args", maxArgs); err != nil {
			return nil, err
		}
	}
	args := make([]string, len(values))
	for i, v := range values {
		switch {
		case isNull(v):
		case v[0] == '"':
			if err := json.Unmarshal(v, &args[i]); err != nil {
				return nil, &fieldError{"args", "is not readable"}
			}
		default:
			var b bytes.Buffer
			if err := json.Compact(&b, v); err != nil {
				return nil, &fieldError{"args", "is not readable"}
			}
			args[i] = b.String()
		}
	}
	return args, nil
}

func refs(raw json.RawMessage) ([]CodeFile, error) {
	if isNull(raw) {
		return nil, nil
	}
	values, err := elements(raw, "files", maxFiles)
	if err != nil {
		return nil, err
	}
	var out []CodeFile
	for i, v := range values {
		if isNull(v) {
			continue
		}
		var f CodeFile
		if err := f.UnmarshalJSON(v); err != nil {
			if fe, ok := errors.AsType[*fieldError](err); ok {
				return nil, &fieldError{fmt.Sprintf("files[%d].%s", i, fe.field), fe.rule}
			}
			return nil, &fieldError{fmt.Sprintf("files[%d]", i), "must be an object"}
		}
		out = append(out, f)
	}
	return out, nil
}

// decodeRun turns a body into a checked request.
func decodeRun(b []byte) (*CodeRun, *host.HTTPError) {
	b = bytes.TrimPrefix(b, []byte("\ufeff"))
	if !utf8.Valid(b) {
		return nil, refuse(http.StatusBadRequest, "invalid_body", "the body is not valid UTF-8")
	}
	var r CodeRun
	err := json.Unmarshal(b, &r)
	if syntax, ok := errors.AsType[*json.SyntaxError](err); ok {
		return nil, refuse(http.StatusBadRequest, "invalid_json",
			fmt.Sprintf("the body is not valid JSON: %s at byte %d", syntax.Error(), syntax.Offset))
	}
	if fe, ok := errors.AsType[*fieldError](err); ok {
		return nil, refuse(http.StatusBadRequest, "invalid_request", fe.Error())
	}
	if err != nil {
		return nil, refuse(http.StatusBadRequest, "invalid_json", "the body "+err.Error())
	}
	if err := r.check(); err != nil {
		return nil, err
	}
	return &r, nil
}

// check holds for requests from JSON and from Go alike.
func (r *CodeRun) check() *host.HTTPError {
	bad := func(field, rule string) *host.HTTPError {
		return refuse(http.StatusBadRequest, "invalid_request", field+" "+rule)
	}
	switch {
	case strings.TrimSpace(r.Lang) == "":
		return bad("lang", "is required")
	case len(r.Lang) > maxLang:
		return bad("lang", fmt.Sprintf("is longer than %d bytes", maxLang))
	case r.Code == "":
		return bad("code", "is required")
	case r.SessionID != "" && !identity.Syntax(r.SessionID):
		return bad("session_id", "may hold 1 to 64 of A-Z a-z 0-9 _ -")
	case len(r.Args) > maxArgs:
		return bad("args", fmt.Sprintf("has more than %d elements", maxArgs))
	case len(r.Files) > maxFiles:
		return bad("files", fmt.Sprintf("has more than %d elements", maxFiles))
	}
	for i := range r.Files {
		if field := r.Files[i].tooLong(); field != "" {
			return bad(fmt.Sprintf("files[%d].%s", i, field), fmt.Sprintf("is longer than %d bytes", maxRefBytes))
		}
	}
	total := 0
	for i, a := range r.Args {
		switch {
		case strings.ContainsRune(a, 0):
			return bad(fmt.Sprintf("args[%d]", i), "contains NUL")
		case len(a) > maxArgBytes:
			return bad(fmt.Sprintf("args[%d]", i), fmt.Sprintf("is longer than %d bytes", maxArgBytes))
		}
		total += len(a)
	}
	if total > maxArgsBytes {
		return bad("args", fmt.Sprintf("has more than %d bytes in all", maxArgsBytes))
	}
	return nil
}

// tooLong is the member of a ref that has more bytes than any that means something.
func (f *CodeFile) tooLong() string {
	for _, x := range []member{
		{"id", &f.ID},
		{"name", &f.Name},
		{"storage_session_id", &f.StorageSessionID},
		{"session_id", &f.SessionID},
		{"kind", &f.Kind},
		{"resource_id", &f.ResourceID},
		{"entity_id", &f.EntityID},
	} {
		if len(*x.p) > maxRefBytes {
			return x.field
		}
	}
	return ""
}
