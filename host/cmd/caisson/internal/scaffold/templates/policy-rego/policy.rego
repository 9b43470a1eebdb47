# A policy: it is asked about every run before anything is spent.
package caisson

import rego.v1

# Without a default a request about which no rule says anything is denied as a failure.
default verdict := {"decision": "allow", "limits": {"wall_ms": 10000}}

verdict := {
	"decision": "deny",
	"code": "language_not_allowed",
	"reason": sprintf("%s is not accepted here", [input.language]),
} if {
	input.language in denied
}

denied contains "bash"

# data.config is what the operator configures; plugin.yaml has its schema.
denied contains language if some language in data.config.denied
