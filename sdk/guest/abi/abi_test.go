package abi_test

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/caisson-run/caisson/sdk/guest/abi"
	"github.com/caisson-run/caisson/sdk/internal/contracttest"
)

func TestPack(t *testing.T) {
	for _, tc := range []struct {
		ptr, n  uint32
		isError bool
		want    uint64
	}{
		{0, 0, false, 0},
		{1, 2, false, 1<<32 | 2},
		{0xffffffff, 0x7fffffff, false, 0xffffffff_7fffffff},
		{16, 3, true, 16<<32 | 1<<31 | 3},
	} {
		got := abi.Pack(tc.ptr, tc.n, tc.isError)
		if got != tc.want {
			t.Errorf("Pack(%d, %d, %v) = %#x, want %#x", tc.ptr, tc.n, tc.isError, got, tc.want)
		}
		if ptr, n, isError := abi.Unpack(got); ptr != tc.ptr || n != tc.n || isError != tc.isError {
			t.Errorf("Unpack(%#x) = %d, %d, %v", got, ptr, n, isError)
		}
	}
}

// The numbers are the contract: a change here breaks every module in the field.
func TestNumbersAreFrozen(t *testing.T) {
	for op, want := range map[abi.Op]string{
		1: "describe", 2: "selftest", 3: "configure", 16: "admit", 17: "result", 32: "list", 33: "plan", 1024: "op 1024",
	} {
		if op.String() != want {
			t.Errorf("op %d is %q, want %q", uint32(op), op, want)
		}
	}
	if abi.Version != 0x10000 {
		t.Errorf("version %#x", abi.Version)
	}
}

func TestErrorObject(t *testing.T) {
	for _, tc := range []struct {
		name string
		in   abi.Error
		want string
	}{
		{"plain", abi.Error{Code: "bad_input", Message: `no "x"`}, `{"code":"bad_input","message":"no \"x\""}`},
		{"bad code", abi.Error{Code: "Bad Code", Message: "m"}, `{"code":"error","message":"m"}`},
		{"no code", abi.Error{Message: "m"}, `{"code":"error","message":"m"}`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			data := tc.in.AppendJSON(nil)
			if string(data) != tc.want {
				t.Fatalf("got %s", data)
			}
			e, err := abi.DecodeError(data)
			if err != nil || e.Message != tc.in.Message {
				t.Fatalf("back: %+v, %v", e, err)
			}
		})
	}
	long := (&abi.Error{Code: "x", Message: strings.Repeat("é\n", 2000)}).AppendJSON(nil)
	e, err := abi.DecodeError(long)
	if err != nil || len(e.Message) > 1024 || strings.ContainsAny(e.Message, "\n\uFFFD") {
		t.Fatalf("long message: %d bytes, %v", len(e.Message), err)
	}
}

func TestDecodeErrorRefuses(t *testing.T) {
	for in, want := range map[string]string{
		``:                                "want an object",
		`{}`:                              "no code",
		`{"code":"A","message":""}`:       "code: not a valid code",
		`{"code":"a","message":1}`:        "message: want a string",
		`{"code":"a","message":"","x":1}`: "x: unknown member",
		`{"code":"a","Code":"b"}`:         "Code: unknown member",
		`"` + strings.Repeat("x", 8<<10):  "too long",
		`{"code":"a","code":"b"}`:         "duplicate",
		`{"code":"` + strings.Repeat("a", 65) + `"}`: "not a valid code",
	} {
		if _, err := abi.DecodeError([]byte(in)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.40s: got %v, want %s", in, err, want)
		}
	}
}

func TestAsError(t *testing.T) {
	own := &abi.Error{Code: "mine", Message: "m"}
	if got := abi.AsError(fmt.Errorf("wrapped: %w", own)); got != own {
		t.Errorf("got %v", got)
	}
	if got := abi.AsError(errors.New("plain")); got.Code != abi.CodeError || got.Message != "plain" {
		t.Errorf("got %v", got)
	}
	if abi.AsError(nil) != nil {
		t.Error("nil is not nil")
	}
}

func TestErrorContract(t *testing.T) {
	contracttest.Contract{
		Name: "error", Dir: "../../../testdata/schemas", Type: reflect.TypeFor[abi.Error](),
		Decode: func(data []byte) (any, error) { return abi.DecodeError(data) },
		Append: func(dst []byte, v any) []byte { return v.(*abi.Error).AppendJSON(dst) },
		Adjust: func(v any) { *v.(*abi.Error) = abi.Error{Code: "a_code", Message: "why <é>"} },
	}.Run(t)
}
