package sandboxes

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"regexp"
	"strings"
	"time"

	"github.com/caisson-run/caisson/sdk/backend"
)

// Labels of containers and images. Those of a session are for people and for the
// engine's own filters; the record decides.
const (
	labelOwner   = "caisson.owner"  // the installation that made it
	labelMaker   = "caisson.maker"  // the process of it
	labelConfig  = "caisson.config" // the named config
	labelRecord  = "caisson.record" // the record, as JSON
	labelShape   = "caisson.shape"  // the digest of what the container was made from
	labelAgent   = "caisson.agent"  // the agent's digest, where it has one
	labelUser    = "caisson.user"   // UID:GID of programs
	labelSocket  = "caisson.socket" // the private directory that is mounted
	labelSession = "caisson.session"
	labelTenant  = "caisson.tenant"
	labelHost    = "caisson.deployment"
)

// record is what a sandbox is.
type record struct {
	// Container is the id of the one container that this is the record of.
	Container string                `json:"container,omitempty"`
	Metadata  backend.Metadata      `json:"metadata"`
	Env       map[string]string     `json:"env,omitempty"`
	Timeout   backend.TimeoutPolicy `json:"timeout,omitzero"`
	// Created is when the session got it.
	Created time.Time `json:"created"`
	// Expires is when it ends by itself, zero for never. KeepAlive moves it.
	Expires time.Time `json:"expires,omitzero"`
	// Active is when it was last used, as far as was written down.
	Active time.Time `json:"active,omitzero"`
}

func (r record) encode() []byte {
	b, _ := json.Marshal(r) // holds nothing that cannot be encoded
	return b
}

// decodeRecord reads the record of a container. Whatever belongs to another one, a
// snapshot's origin for instance, is none.
func decodeRecord(b []byte, container string) (record, bool) {
	var r record
	if json.Unmarshal(b, &r) != nil || r.Metadata.Session == "" || r.Container != "" && r.Container != container {
		return record{}, false
	}
	r.Container = container
	return r, true
}

// namePrefix begins the names of a config's sandboxes. An engine's names are its
// users' common property, configs' ids are not: the digest keeps them apart.
func namePrefix(config string) string {
	sum := sha256.Sum256([]byte(config))
	return "caisson_" + hex.EncodeToString(sum[:5]) + "_"
}

// newPrefix begins the names of containers that are nobody's yet.
const newPrefix = "caisson-new_"

// sessionName is what a session may be called to become part of a name.
var sessionName = regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`)

// sessionOf returns the session that a container of a config is named for.
func sessionOf(config string, names []string) (string, bool) {
	for _, n := range names {
		if id, ok := strings.CutPrefix(strings.TrimPrefix(n, "/"), namePrefix(config)); ok && sessionName.MatchString(id) {
			return id, true
		}
	}
	return "", false
}

// isNew reports whether a container is nobody's yet.
func isNew(names []string) bool {
	for _, n := range names {
		if strings.HasPrefix(strings.TrimPrefix(n, "/"), newPrefix) {
			return true
		}
	}
	return false
}
