package dialect

import (
	"bytes"
	"encoding/json"
	"slices"

	"github.com/caisson-run/caisson/sdk/backend"
)

// maxSecret bounds what a rule may put into a header.
const maxSecret = 2048

// rule decides about requests that match; the first that does counts. Allow is the
// one place where a rule says yes or no.
type rule struct {
	Name  string `json:"name"`
	Match struct {
		SNI    string   `json:"sni,omitempty"`
		Host   string   `json:"host,omitempty"`
		Method []string `json:"method,omitempty"`
		Path   string   `json:"path,omitempty"`
		Scheme string   `json:"scheme,omitempty"`
		Port   int      `json:"port,omitempty"`
	} `json:"match"`
	Action struct {
		Allow  bool     `json:"allow"`
		Audit  string   `json:"audit,omitempty"`
		Inject []inject `json:"inject,omitempty"`
	} `json:"action"`
}

// inject sets a header to a secret that programs do not see.
type inject struct {
	Header string `json:"header"`
	Secret string `json:"secret"`
	Format string `json:"format,omitempty"`
}

// checkRules reads a list of rules. Errors name places only.
func checkRules(raw []byte) (json.RawMessage, error) {
	invalid := func(format string, args ...any) error {
		return backend.Errorf(backend.KindInvalidRequest, "Create", "network.rules"+format, args...)
	}
	d := json.NewDecoder(bytes.NewReader(raw))
	d.DisallowUnknownFields()
	var rules []rule
	if d.Decode(&rules) != nil {
		return nil, invalid(`: must be a list of {"name", "match", "action"}`)
	}
	for i, r := range rules {
		switch {
		case r.Name == "":
			return nil, invalid("[%d].name: is required", i)
		case !slices.Contains([]string{"", "full", "metadata", "none"}, r.Action.Audit):
			return nil, invalid("[%d].action.audit: must be full, metadata or none", i)
		case !r.Action.Allow && len(r.Action.Inject) > 0:
			return nil, invalid("[%d].action.inject: only an allowed request has headers to set", i)
		case len(r.Action.Inject) > 0 && r.Match.Scheme != "" && r.Match.Scheme != "https":
			return nil, invalid("[%d].action.inject: secrets are sent over https only", i)
		}
		for j, in := range r.Action.Inject {
			if in.Header == "" || in.Secret == "" || len(in.Secret) > maxSecret {
				return nil, invalid("[%d].action.inject[%d]: needs a header and a secret of at most %d characters", i, j, maxSecret)
			}
		}
	}
	return raw, nil
}
