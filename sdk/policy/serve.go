package policy

import (
	"github.com/caisson-run/caisson/sdk/guest"
	"github.com/caisson-run/caisson/sdk/guest/abi"
)

// Serve makes the module a policy that answers admit by calling decide. It is for
// the module's init function:
//
//	package main
//
//	import "github.com/caisson-run/caisson/sdk/policy"
//
//	func init() {
//		policy.Serve(func(r policy.Request) policy.Verdict {
//			if r.Network != "none" {
//				return policy.Verdict{Decision: policy.Deny, Reason: "programs run without network here"}
//			}
//			return policy.Verdict{Decision: policy.Allow}
//		})
//	}
//
//	func main() {}
//
// See sdk/guest for how it is built. A panic in decide denies.
func Serve(decide func(Request) Verdict) {
	var a admitter
	guest.Handle(abi.OpAdmit, func(in []byte) ([]byte, error) { return a.admit(decide, in) })
}

// ServeConfig is Serve for a policy with settings. configure receives the
// operator's configuration as canonical JSON ("{}" when there is none), once per
// instance and before anything else; it returns the function that decides, or an
// error that stops the host from loading the module. The host has validated the
// configuration against the schema in the module's manifest, so configure checks
// what a schema cannot say.
func ServeConfig(configure func(config []byte) (func(Request) Verdict, error)) {
	var a admitter
	var decide func(Request) Verdict
	set := func(config []byte) error {
		d, err := configure(config)
		if err != nil {
			return &guest.Error{Code: abi.CodeBadConfig, Message: err.Error()}
		}
		decide = d
		return nil
	}
	guest.Handle(abi.OpConfigure, func(in []byte) ([]byte, error) { return nil, set(in) })
	guest.Handle(abi.OpAdmit, func(in []byte) ([]byte, error) {
		if decide == nil {
			if err := set([]byte("{}")); err != nil {
				return nil, err
			}
		}
		return a.admit(decide, in)
	})
}

// admitter answers admit. It reuses the reply's buffer, which the host has read by
// the time of the next call.
type admitter struct{ reply []byte }

func (a *admitter) admit(decide func(Request) Verdict, in []byte) ([]byte, error) {
	request, err := DecodeRequest(in)
	if err != nil {
		return nil, &guest.Error{Code: abi.CodeBadInput, Message: err.Error()}
	}
	verdict := decide(request)
	if err := verdict.Validate(); err != nil {
		return nil, &guest.Error{Code: "bad_verdict", Message: err.Error()}
	}
	a.reply = verdict.AppendJSON(a.reply[:0])
	return a.reply, nil
}
