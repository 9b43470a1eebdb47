package exec

import (
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"net/url"
	"regexp"
	"strconv"

	"github.com/caisson-run/caisson/host"
	"github.com/caisson-run/caisson/host/session"
	"github.com/caisson-run/caisson/sdk/backend"
)

// What an upload says about itself is stamped on its session, which holds that
// one upload and nothing else: metadata never changes, comes back with every
// listing, and needs no store. Uploads into an existing session say nothing.
const (
	labelKind     = "exec.kind"
	labelID       = "exec.id"
	labelVersion  = "exec.version"
	labelEntity   = "exec.entity"
	labelReadOnly = "exec.read_only"
	// labelWhole says that a listing leaves no caches out.
	labelWhole = "exec.whole"
)

// Kinds of a file in the client's terms (docs/wire.md).
const (
	kindUser  = "user"
	kindAgent = "agent"
	kindSkill = "skill"
)

var (
	resourceID = regexp.MustCompile(`^[A-Za-z0-9_.:-]{1,128}$`)
	entityID   = regexp.MustCompile(`^[A-Za-z0-9_-]{1,40}$`)
)

// attributes are the fields of an upload.
type attributes struct {
	kind, id, version, entity string
	readOnly                  bool
	session                   string
}

// set takes one form field. Unknown ones are ignored.
func (a *attributes) set(field, value string) *host.HTTPError {
	bad := func(rule string) *host.HTTPError {
		return refuse(http.StatusBadRequest, "invalid_request", field+" "+rule)
	}
	if value == "" {
		return nil
	}
	switch field {
	case "kind":
		if value != kindUser && value != kindAgent && value != kindSkill {
			return bad("must be one of: skill, agent, user")
		}
		a.kind = value
	case "id":
		if !resourceID.MatchString(value) {
			return bad("may hold 1 to 128 of A-Z a-z 0-9 _ . : -")
		}
		a.id = value
	case "version":
		if _, err := strconv.ParseInt(value, 10, 64); err != nil {
			return bad("must be an integer")
		}
		a.version = value
	case "read_only":
		yes, err := strconv.ParseBool(value) // LibreChat says true; others write it their way
		if err != nil {
			return bad("must be true or false")
		}
		a.readOnly = yes
	case "entity_id":
		a.entity = value
		if !entityID.MatchString(value) { // any shape is legal; only equality matters
			sum := sha256.Sum256([]byte(value))
			a.entity = hex.EncodeToString(sum[:])
		}
	case "session_id":
		a.session = value
	}
	return nil
}

// knownField reports whether a field is one that set reads.
func knownField(field string) bool {
	switch field {
	case "kind", "id", "version", "read_only", "entity_id", "session_id":
		return true
	}
	return false
}

func (a *attributes) labels() map[string]string {
	m := make(map[string]string)
	for k, v := range map[string]string{labelKind: a.kind, labelID: a.id, labelVersion: a.version, labelEntity: a.entity} {
		if v != "" {
			m[k] = v
		}
	}
	if a.readOnly {
		m[labelReadOnly] = "true"
	}
	return m
}

// shared reports whether a session's files belong to more than one conversation:
// such a session is copied from and never continued, and what a run does to the
// copies is nobody's news.
func shared(m backend.Metadata) bool {
	l := m.Labels
	return l[labelKind] == kindAgent || l[labelKind] == kindSkill || l[labelEntity] != "" || l[labelReadOnly] != ""
}

func readOnly(m backend.Metadata) bool {
	return m.Labels[labelReadOnly] != "" || m.Labels[labelKind] == kindSkill
}

// continuable reports whether a run may go on in a session that one of its files
// names (docs/architecture.md).
func continuable(o session.Owner, m backend.Metadata) bool {
	switch session.Origin(m.Origin) {
	case session.OriginExec, session.OriginUpload:
	default:
		return false
	}
	return !shared(m) && (m.User == "" || o.User == "" || m.User == o.User)
}

// sharedRef reports what the ref itself claims. A claim only ever narrows.
func sharedRef(f *CodeFile) bool {
	return f.Kind == kindAgent || f.Kind == kindSkill || f.EntityID != ""
}

// mismatch reports whether a request names another owner of a file than its
// session does. Older clients name none, which matches all (docs/wire.md).
func mismatch(q url.Values, m backend.Metadata) bool {
	for label, key := range map[string]string{labelKind: "kind", labelID: "id", labelVersion: "version"} {
		if got, want := q.Get(key), m.Labels[label]; got != "" && want != "" && got != want {
			return true
		}
	}
	return false
}
