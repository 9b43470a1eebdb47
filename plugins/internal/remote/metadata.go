package remote

import (
	"encoding/base64"
	"encoding/json"
	"strconv"
	"strings"
	"time"

	"github.com/caisson-run/caisson/sdk/backend"
)

// The keys that are stamped on a sandbox. The set is fixed: some providers give keys
// a meaning, so that no caller may choose one.
const (
	keyConfig     = "caisson-config"     // the id that OpenConfig was given
	keyRequest    = "caisson-request"    // one creation
	keyPolicy     = "caisson-timeout"    // mode, seconds, action
	keyDeployment = "caisson-deployment" // and so on, as in backend.Metadata
	keyNamed      = "caisson-named"
	keySession    = "caisson-session"
	keyTenant     = "caisson-tenant"
	keyUser       = "caisson-user"
	keyOrigin     = "caisson-origin"
	keyLabels     = "caisson-labels"
)

// stamp is the metadata of a new sandbox.
func stamp(config, request string, m backend.Metadata, p backend.TimeoutPolicy) map[string]string {
	out := map[string]string{
		keyConfig: encode(config), keyRequest: request, keyPolicy: encodePolicy(p),
		keyDeployment: encode(m.Deployment), keyNamed: encode(m.Config), keySession: encode(m.Session),
		keyTenant: encode(m.Tenant), keyOrigin: encode(m.Origin),
	}
	if m.User != "" {
		out[keyUser] = encode(m.User)
	}
	if len(m.Labels) > 0 {
		labels, _ := json.Marshal(m.Labels) // strings always marshal
		out[keyLabels] = "b" + base64.RawURLEncoding.EncodeToString(labels)
	}
	return out
}

// read is the opposite of stamp. ok is false when the sandbox is not one of ours.
func read(meta map[string]string) (config string, m backend.Metadata, p backend.TimeoutPolicy, ok bool) {
	config = decode(meta[keyConfig])
	if config == "" {
		return "", m, p, false
	}
	m = backend.Metadata{
		Deployment: decode(meta[keyDeployment]), Config: decode(meta[keyNamed]), Session: decode(meta[keySession]),
		Tenant: decode(meta[keyTenant]), User: decode(meta[keyUser]), Origin: decode(meta[keyOrigin]),
	}
	if labels := decode(meta[keyLabels]); labels != "" {
		if json.Unmarshal([]byte(labels), &m.Labels) != nil {
			m.Labels = nil
		}
	}
	return config, m, decodePolicy(meta[keyPolicy]), true
}

// filter are the pairs that a sandbox of a listing has.
func filter(config string, f backend.ListFilter) map[string]string {
	out := map[string]string{keyConfig: encode(config)}
	for key, value := range map[string]string{keyDeployment: f.Deployment, keyTenant: f.Tenant, keySession: f.Session} {
		if value != "" {
			out[key] = encode(value)
		}
	}
	return out
}

// plain are the characters that stay what they are however often a server decodes
// them.
const plain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-"

// encode writes a value with plain characters: as it is behind a p, or in base64
// behind a b.
func encode(v string) string {
	if strings.Trim(v, plain) == "" {
		return "p" + v
	}
	return "b" + base64.RawURLEncoding.EncodeToString([]byte(v))
}

func decode(v string) string {
	if rest, ok := strings.CutPrefix(v, "p"); ok {
		return rest
	}
	if rest, ok := strings.CutPrefix(v, "b"); ok {
		if text, err := base64.RawURLEncoding.DecodeString(rest); err == nil {
			return string(text)
		}
	}
	return ""
}

func encodePolicy(p backend.TimeoutPolicy) string {
	return strings.Join([]string{string(p.Mode), strconv.FormatInt(int64(p.Duration/time.Second), 10), string(p.Action)}, ".")
}

func decodePolicy(v string) backend.TimeoutPolicy {
	parts := strings.Split(v, ".")
	if len(parts) != 3 {
		return backend.TimeoutPolicy{}
	}
	seconds, err := strconv.ParseInt(parts[1], 10, 64)
	if err != nil || seconds < 0 || seconds > 1<<32 {
		return backend.TimeoutPolicy{}
	}
	return backend.TimeoutPolicy{
		Mode: backend.TimeoutMode(parts[0]), Duration: time.Duration(seconds) * time.Second, Action: backend.TimeoutAction(parts[2]),
	}
}
