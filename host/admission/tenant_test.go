package admission

import (
	"strings"
	"testing"

	"github.com/caisson-run/caisson/host"
)

func TestTenant(t *testing.T) {
	token := &claims{org: "acme"}
	tests := []struct {
		name   string
		facts  verified
		org    string
		via    host.Via
		status int
	}{
		{"token", verified{token: token}, "acme", host.ViaBearer, 0},
		{"token and key", verified{token: token, keyID: "k"}, "acme", host.ViaBearer, 0},
		{"key", verified{keyID: "k"}, "brand", host.ViaServiceKey, 0},
		{"nothing", verified{}, "", "", 401},
		{"token without org", verified{token: &claims{}}, "", "", 403},
		{"token without org, and key", verified{token: &claims{}, keyID: "k"}, "", "", 403},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			org, via, err := tenant(tt.facts, "brand")
			if org != tt.org || via != tt.via {
				t.Errorf("tenant = %q via %q", org, via)
			}
			switch {
			case tt.status == 0 && err != nil:
				t.Error(err)
			case tt.status != 0 && refusal(t, err).Status != tt.status:
				t.Errorf("tenant = %v", err)
			}
		})
	}
}

func TestNames(t *testing.T) {
	tests := []struct {
		name      string
		org, user bool
	}{
		{"acme", true, true},
		{"Acme_1.x", true, true},
		{"acme/ann", true, true},
		{"org:team@host-1", true, true},
		{"_", true, true},
		{strings.Repeat("x", 128), true, true},
		{strings.Repeat("x", 129), false, true},
		{strings.Repeat("x", 256), false, false},
		{"", false, true}, // a token may name no user
		{"auth0|5f7c8ec7", false, true},
		{"ann+tag@example.org", false, true},
		{"aGVsbG8=", false, true},
		{"../etc", false, true},
		{"a/../b", false, true},
		{"a//b", false, true},
		{"a/", false, true},
		{"/a", false, true},
		{".a", false, true},
		{"-a", false, true},
		{"a b", false, false},
		{"a\nb", false, false},
		{"a\x00b", false, false},
		{"acmé", false, false},
		{"аcme", false, false}, // Cyrillic а
		{"a\u202eb", false, false},
		{"a%2fb", false, false},
		{`a\b`, false, false},
		{"a;b", false, false},
		{"a'b", false, false},
		{"a*", false, false},
		{"\xff", false, false},
	}
	for _, tt := range tests {
		if err := checkOrg(tt.name); (err == nil) != tt.org {
			t.Errorf("checkOrg(%q) = %v", tt.name, err)
		}
		if err := checkUser(tt.name); (err == nil) != tt.user {
			t.Errorf("checkUser(%q) = %v", tt.name, err)
		}
	}
}
