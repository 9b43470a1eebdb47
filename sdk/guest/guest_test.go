package guest_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/caisson-run/caisson/sdk/guest"
	"github.com/caisson-run/caisson/sdk/guest/abi"
)

func init() {
	guest.Handle(guest.OpPrivate, func(in []byte) ([]byte, error) {
		switch string(in) {
		case "panic":
			panic("index out of luck")
		case "error":
			return nil, errors.New("plain")
		case "coded":
			return nil, &guest.Error{Code: "mine", Message: "m"}
		}
		return in, nil
	})
}

func TestInvoke(t *testing.T) {
	for _, tc := range []struct {
		op             guest.Op
		in, want, fail string
	}{
		{guest.OpPrivate, "hello", "hello", ""},
		{guest.OpPrivate, "panic", "", "panic: index out of luck"},
		{guest.OpPrivate, "error", "", "error: plain"},
		{guest.OpPrivate, "coded", "", "mine: m"},
		{abi.OpAdmit, "", "", "unsupported_op: this module does not serve admit"},
		{abi.OpSelftest, "", "", ""},
	} {
		got, err := guest.Invoke(tc.op, []byte(tc.in))
		if string(got) != tc.want {
			t.Errorf("%v %q: got %q", tc.op, tc.in, got)
		}
		switch {
		case tc.fail == "" && err != nil:
			t.Errorf("%v %q: %v", tc.op, tc.in, err)
		case tc.fail != "" && (err == nil || err.Error() != tc.fail):
			t.Errorf("%v %q: got error %v, want %s", tc.op, tc.in, err, tc.fail)
		}
	}
	got, err := guest.Invoke(abi.OpDescribe, nil)
	if err != nil || !strings.Contains(string(got), `"ops":["describe","op 1024","selftest"]`) {
		t.Errorf("describe: %s, %v", got, err)
	}
}

func TestHandlePanics(t *testing.T) {
	for name, register := range map[string]func(){
		"nil handler":    func() { guest.Handle(guest.OpPrivate+1, nil) },
		"second handler": func() { guest.Handle(guest.OpPrivate, func([]byte) ([]byte, error) { return nil, nil }) },
	} {
		t.Run(name, func(t *testing.T) {
			defer func() {
				if p := recover(); p == nil || !strings.Contains(p.(string), name) {
					t.Errorf("panic %v", p)
				}
			}()
			register()
		})
	}
}
