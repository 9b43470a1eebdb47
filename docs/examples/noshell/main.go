// Noshell is the policy of docs/plugin-authors.md: it denies shell scripts and
// shortens everything else.
package main

import "github.com/caisson-run/caisson/sdk/policy"

func init() {
	policy.Serve(func(r policy.Request) policy.Verdict {
		if r.Language == "bash" {
			return policy.Verdict{Decision: policy.Deny, Code: "no_shell", Reason: "shell scripts are not accepted here"}
		}
		return policy.Verdict{Decision: policy.Allow, Limits: policy.Limits{WallMS: 10_000}}
	})
}

func main() {}
