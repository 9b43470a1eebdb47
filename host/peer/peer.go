// Package peer passes requests about sessions whose sandboxes live on another node
// on to that node. An id's route says which it is; the node is asked with the caller's
// own credential and decides like for every request. A sandbox is never made in the
// place of one that lives elsewhere.
//
// Replicas prove to each other that they are replicas by a tag under a key that is
// derived from the deployment secret. It admits nobody: it only ends the passing on.
package peer

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httputil"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/caisson-run/caisson/host/identity"
	"github.com/hashicorp/go-hclog"
)

// Header says that a request was passed on by a replica.
const Header = "Caisson-Peer"

// skew is how far the clocks of replicas may differ, and how old a tag may be.
const skew = 2 * time.Minute

// Errors of Away.
var (
	// ErrUnknownNode: the session is on a node that is not configured.
	ErrUnknownNode = errors.New("the session is on a node that is not known here")
	// ErrLoop: a replica passed on what is not here either: their configurations
	// disagree.
	ErrLoop = errors.New("the session is not where a replica believes it to be")
	// ErrForged: the request claims to come from a replica and does not.
	ErrForged = errors.New("the request does not come from a replica")
)

// Options of New. Keys and Node are required.
type Options struct {
	// Node is this replica's name, Peers the others' with where they answer.
	Node  string
	Peers map[string]string
	Keys  *identity.Keys
	// Transport reaches them; nil means one of its own.
	Transport http.RoundTripper
	Log       hclog.Logger
	// Now is the clock; nil means time.Now.
	Now func() time.Time
}

// Peers are the other nodes. A nil Peers knows none and passes nothing on. It is safe
// for concurrent use.
type Peers struct {
	o     Options
	nodes map[uint16]*Node // by the part of a route that names a node
	own   map[uint16]bool
	close func()
}

// Node is one other node.
type Node struct {
	Name string
	url  *url.URL
	p    *Peers
}

// New checks o. Two nodes whose names cannot be told apart in an id are refused.
func New(o Options) (*Peers, error) {
	if o.Node == "" {
		return nil, errors.New("peers: this node has no name")
	}
	if o.Log == nil {
		o.Log = hclog.NewNullLogger()
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	p := &Peers{o: o, nodes: make(map[uint16]*Node), own: make(map[uint16]bool), close: func() {}}
	if o.Transport == nil {
		t := http.DefaultTransport.(*http.Transport).Clone()
		t.Proxy = nil // replicas are reached directly
		t.MaxIdleConnsPerHost = 64
		p.o.Transport, p.close = t, t.CloseIdleConnections
	}
	for _, r := range o.Keys.Routes("", o.Node) {
		p.own[r.Node] = true
	}
	for name, address := range o.Peers {
		u, err := url.Parse(address)
		if err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Host == "" || u.User != nil {
			return nil, fmt.Errorf("peers: node %q: its address must be an http or https URL", name)
		}
		for _, r := range o.Keys.Routes("", name) {
			if other := p.nodes[r.Node]; p.own[r.Node] || other != nil && other.Name != name {
				return nil, fmt.Errorf("peers: node %q cannot be told from another one in an id: give it another name", name)
			}
			p.nodes[r.Node] = &Node{Name: name, url: u, p: p}
		}
	}
	return p, nil
}

// Close gives connections back.
func (p *Peers) Close() {
	if p != nil {
		p.close()
	}
}

// Away returns the node that has a session, or nil for one that is here, that any
// replica reaches, or that was never issued. r is the request about it: one that a
// replica passed on goes no further.
func (p *Peers) Away(r *http.Request, id string) (*Node, error) {
	if p == nil {
		return nil, nil
	}
	route, ok := p.o.Keys.Session(id)
	if !ok || route.Node == 0 || p.own[route.Node] {
		return nil, nil
	}
	if r.Header.Get(Header) != "" {
		return nil, ErrLoop
	}
	n := p.nodes[route.Node]
	if n == nil {
		return nil, ErrUnknownNode
	}
	return n, nil
}

// Node is this replica's name, empty where there are no others.
func (p *Peers) Node() string {
	if p == nil {
		return ""
	}
	return p.o.Node
}

// Others returns every other node, each once, and none for a request that a replica
// passed on.
func (p *Peers) Others(r *http.Request) []*Node {
	if p == nil || r.Header.Get(Header) != "" {
		return nil
	}
	var out []*Node
	for _, n := range p.nodes {
		if !slices.ContainsFunc(out, func(o *Node) bool { return o.Name == n.Name }) {
			out = append(out, n)
		}
	}
	return out
}

// Check returns ErrForged for a request that claims to come from a replica and does
// not.
func (p *Peers) Check(r *http.Request) error {
	claim := r.Header.Get(Header)
	if claim == "" {
		return nil
	}
	if p == nil || len(r.Header.Values(Header)) != 1 {
		return ErrForged
	}
	at, tag, _ := strings.Cut(claim, " ")
	seconds, err := strconv.ParseInt(at, 10, 64)
	if err != nil || p.o.Now().Sub(time.Unix(seconds, 0)).Abs() > skew || !p.o.Keys.IsPeerTag(tag, parts(r, p.o.Node, at)...) {
		return ErrForged
	}
	return nil
}

// parts are what a tag is about: this request, to this node, at this time.
func parts(r *http.Request, node, at string) []string {
	return []string{r.Method, r.URL.EscapedPath(), node, at}
}

// Forward answers r with what the node answers. A body that is not nil, and as long, takes the
// place of r's. failed is told what happened when the node cannot be asked; nothing
// was written then. Bodies are streamed both ways.
func (n *Node) Forward(w http.ResponseWriter, r *http.Request, body io.Reader, failed func(error)) {
	proxy := &httputil.ReverseProxy{
		Transport:     n.p.o.Transport,
		FlushInterval: -1,
		ErrorLog:      n.p.o.Log.StandardLogger(&hclog.StandardLoggerOptions{ForceLevel: hclog.Debug}),
		Rewrite: func(pr *httputil.ProxyRequest) {
			pr.SetURL(n.url)
			at := strconv.FormatInt(n.p.o.Now().Unix(), 10)
			pr.Out.Header.Set(Header, at+" "+n.p.o.Keys.PeerTag(parts(pr.Out, n.Name, at)...))
			if body != nil {
				pr.Out.Body = io.NopCloser(body)
			}
		},
		ErrorHandler: func(_ http.ResponseWriter, _ *http.Request, err error) {
			if !errors.Is(err, context.Canceled) {
				n.p.o.Log.Warn("a node could not be asked", "node", n.Name, "error", err)
			}
			failed(fmt.Errorf("node %q: %w", n.Name, err))
		},
	}
	proxy.ServeHTTP(w, r)
}
