# A policy in Rego. It denies bash and what the operator's configuration lists, and
# remarks on programs that write much.
package caisson

import rego.v1

default verdict := {"decision": "allow", "limits": {"wall_ms": 5000}}

verdict := {
	"decision": "deny",
	"code": "language_not_allowed",
	"reason": sprintf("%s is not allowed here", [input.language]),
} if {
	input.language in denied
}

denied contains "bash"

denied contains language if some language in data.config.denied

remarks := {"warnings": [remark | some remark in noisy]}

noisy contains {"code": "noisy", "reason": sprintf("the program wrote %d bytes", [input.stdout_bytes])} if {
	input.stdout_bytes > data.quiet.bytes
}
