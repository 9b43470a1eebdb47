package mcp

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// guard refuses what a web page of somebody else may have sent, before anybody is
// admitted: requests of another origin, and those for a host that this server is not
// (DNS rebinding).
func (s *Server) guard(w http.ResponseWriter, r *http.Request) bool {
	if !s.named(r) {
		s.turnedAway(w, r, refusal(http.StatusForbidden, "forbidden", "the server does not answer for this host"))
		return true
	}
	// The check lets requests pass that change nothing; here those are refused as well.
	probe := &http.Request{Method: http.MethodPost, Header: r.Header, Host: r.Host, URL: r.URL}
	if http.NewCrossOriginProtection().Check(probe) != nil {
		s.turnedAway(w, r, refusal(http.StatusForbidden, "forbidden", "requests of web pages of another origin are refused"))
		return true
	}
	return false
}

// named reports whether a request is for a host that this server is.
func (s *Server) named(r *http.Request) bool {
	name := strings.ToLower(strings.TrimSuffix(hostOf(r.Host), "."))
	if len(s.o.Hosts) > 0 {
		return slices.ContainsFunc(s.o.Hosts, func(h string) bool { return strings.EqualFold(h, name) })
	}
	local, _ := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
	if local == nil || !loopback(hostOf(local.String())) {
		return true
	}
	return loopback(name)
}

// hostOf is an address without its port and brackets.
func hostOf(addr string) string {
	if h, _, err := net.SplitHostPort(addr); err == nil {
		return h
	}
	return strings.Trim(addr, "[]")
}

func loopback(name string) bool {
	if name == "localhost" {
		return true
	}
	ip, err := netip.ParseAddr(name)
	return err == nil && ip.Unmap().IsLoopback()
}

// bounded keeps the tool calls of a caller within their places.
func (o *owned) bounded(next sdk.MethodHandler) sdk.MethodHandler {
	return func(ctx context.Context, method string, req sdk.Request) (sdk.Result, error) {
		if method != "tools/call" {
			return next(ctx, method, req)
		}
		select {
		case o.calls <- struct{}{}:
			defer func() { <-o.calls }()
			return next(ctx, method, req)
		default:
			return &sdk.CallToolResult{IsError: true, Content: []sdk.Content{
				&sdk.TextContent{Text: fmt.Sprintf("rate_limited: more than %d calls at once", cap(o.calls))},
			}}, nil
		}
	}
}
