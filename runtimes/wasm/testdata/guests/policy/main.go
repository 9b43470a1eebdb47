// Command policy is the smallest useful policy, about what an author writes.
package main

import "github.com/caisson-run/caisson/sdk/policy"

func init() {
	policy.Serve(func(r policy.Request) policy.Verdict {
		if r.Language == "bash" {
			return policy.Verdict{Decision: policy.Deny, Code: "language_not_allowed", Reason: "bash is not allowed here"}
		}
		return policy.Verdict{Decision: policy.Allow, Limits: policy.Limits{WallMS: 5000}}
	})
}

func main() {}
