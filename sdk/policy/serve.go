package policy

import (
	"github.com/caisson-run/caisson/sdk/canon"
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
	s := server{hooks: Hooks{Admit: decide}}
	guest.Handle(abi.OpAdmit, s.admit)
}

// ServeConfig is Serve for a policy with settings. configure receives the
// operator's configuration as canonical JSON ("{}" when there is none), once per
// instance and before anything else; it returns the function that decides, or an
// error that stops the host from loading the module. The host has validated the
// configuration against the schema in the module's manifest, so configure checks
// what a schema cannot say.
func ServeConfig(configure func(config []byte) (func(Request) Verdict, error)) {
	ServeHooks(func(config []byte) (Hooks, error) {
		decide, err := configure(config)
		return Hooks{Admit: decide}, err
	})
}

// Hooks are what a policy answers. The manifest says which the host calls: "hooks".
type Hooks struct {
	// Admit decides about a request; without it every request is denied.
	Admit func(Request) Verdict
	// Result remarks on what became of a run. It cannot change anything.
	Result func(Outcome) Remarks
}

// ServeHooks is ServeConfig for a policy that is asked at other times, too.
func ServeHooks(configure func(config []byte) (Hooks, error)) {
	var s server
	set := func(config []byte) error {
		h, err := configure(config)
		if err != nil {
			return &guest.Error{Code: abi.CodeBadConfig, Message: err.Error()}
		}
		s.hooks, s.configured = h, true
		return nil
	}
	serve := func(answer func([]byte) ([]byte, error)) guest.Handler {
		return func(in []byte) ([]byte, error) {
			if !s.configured {
				if err := set([]byte("{}")); err != nil {
					return nil, err
				}
			}
			return answer(in)
		}
	}
	guest.Handle(abi.OpConfigure, func(in []byte) ([]byte, error) { return nil, set(in) })
	guest.Handle(abi.OpAdmit, serve(s.admit))
	guest.Handle(abi.OpResult, serve(s.result))
}

// server answers for a policy. It reuses the reply's buffer, which the host has read
// by the time of the next call.
type server struct {
	hooks      Hooks
	configured bool
	reply      []byte
	reader     canon.Reader
}

func (s *server) admit(in []byte) ([]byte, error) {
	if s.hooks.Admit == nil {
		return nil, unserved(abi.OpAdmit)
	}
	request, err := readRequest(&s.reader, in)
	if err != nil {
		return nil, &guest.Error{Code: abi.CodeBadInput, Message: err.Error()}
	}
	verdict := s.hooks.Admit(request)
	if err := verdict.Validate(); err != nil {
		return nil, &guest.Error{Code: "bad_verdict", Message: err.Error()}
	}
	s.reply = verdict.AppendJSON(s.reply[:0])
	return s.reply, nil
}

func (s *server) result(in []byte) ([]byte, error) {
	if s.hooks.Result == nil {
		return nil, unserved(abi.OpResult)
	}
	outcome, err := DecodeOutcome(in)
	if err != nil {
		return nil, &guest.Error{Code: abi.CodeBadInput, Message: err.Error()}
	}
	remarks := s.hooks.Result(outcome)
	if err := remarks.Validate(); err != nil {
		return nil, &guest.Error{Code: "bad_remarks", Message: err.Error()}
	}
	s.reply = remarks.AppendJSON(s.reply[:0])
	return s.reply, nil
}

func unserved(op abi.Op) error {
	return &guest.Error{Code: abi.CodeUnsupportedOp, Message: "this module does not serve " + op.String()}
}
