package envdfake

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"mime"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"connectrpc.com/connect"

	"github.com/caisson-run/caisson/plugins/internal/envd/envdpb/filesystempb/filesystempbconnect"
	"github.com/caisson-run/caisson/plugins/internal/envd/envdpb/processpb/processpbconnect"
)

// ServeHTTP answers as the daemon does.
func (m *Machine) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	m.mu.Lock()
	m.requests = append(m.requests, r.Method+" "+r.URL.Path)
	m.mu.Unlock()
	m.routes.ServeHTTP(w, r)
}

func (m *Machine) newRoutes() http.Handler {
	codecs := []connect.HandlerOption{connect.WithCodec(strictJSON{m}), connect.WithInterceptors(unknownFields{m})}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /health", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) })
	mux.HandleFunc("GET /metrics", m.guarded(m.metrics))
	mux.HandleFunc("GET /envs", m.guarded(m.envs))
	mux.HandleFunc("GET /files", m.signed("read", m.download))
	mux.HandleFunc("POST /files", m.signed("write", m.upload))
	for _, route := range []func() (string, http.Handler){
		func() (string, http.Handler) {
			return processpbconnect.NewProcessHandler(processService{m: m}, codecs...)
		},
		func() (string, http.Handler) {
			return filesystempbconnect.NewFilesystemHandler(filesystemService{m: m}, codecs...)
		},
	} {
		path, h := route()
		mux.Handle(path, m.guarded(m.rpc(h)))
	}
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodHead {
			w.WriteHeader(http.StatusMethodNotAllowed)
		} else {
			http.NotFound(w, r)
		}
		m.violation("%s %s is no route", r.Method, r.URL.Path)
	})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodHead {
			m.violation("HEAD %s: the daemon allows none", r.URL.Path)
			w.WriteHeader(http.StatusMethodNotAllowed)
			return
		}
		mux.ServeHTTP(w, r)
	})
}

// fail answers with the daemon's own form of errors, whose code is a number.
func fail(w http.ResponseWriter, status int, message string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(map[string]any{"code": status, "message": message})
}

// guarded asks for the access token and a known account.
func (m *Machine) guarded(next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if got := r.Header.Get("X-Access-Token"); m.opts.Token != "" && got != m.opts.Token {
			if got == "" {
				m.violation("%s %s without an access token", r.Method, r.URL.Path)
			}
			fail(w, http.StatusUnauthorized, "unauthorized access, please provide a valid access token or method signing if supported")
			return
		}
		m.account(next)(w, r)
	}
}

// account refuses accounts that are not there, in the protocol's form of errors.
func (m *Machine) account(next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if user, _, ok := r.BasicAuth(); ok && !slices.Contains(m.opts.Users, user) {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusUnauthorized)
			_ = json.NewEncoder(w).Encode(map[string]any{"code": "unauthenticated", "message": "invalid username: '" + user + "'"})
			return
		}
		next(w, r)
	}
}

// userOf is the account of a request.
func (m *Machine) userOf(h http.Header) string {
	r := http.Request{Header: h}
	if user, _, ok := r.BasicAuth(); ok {
		return user
	}
	if m.atLeast("0.4.0") {
		return "root"
	}
	return "user"
}

// signed asks for the access token or a signature.
func (m *Machine) signed(op string, next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		q := r.URL.Query()
		switch token := r.Header.Get("X-Access-Token"); {
		case m.opts.Token == "" || token == m.opts.Token:
		case token != "":
			fail(w, http.StatusUnauthorized, "access token present in header but does not match")
			return
		case q.Get("signature") == "":
			m.violation("%s %s without an access token or a signature", r.Method, r.URL.Path)
			fail(w, http.StatusUnauthorized, "missing signature query parameter")
			return
		case q.Get("signature") != m.Signature(q.Get("path"), op, q.Get("username"), q.Get("signature_expiration")):
			fail(w, http.StatusUnauthorized, "invalid signature")
			return
		default:
			if at, err := strconv.ParseInt(q.Get("signature_expiration"), 10, 64); err == nil && at < time.Now().Unix() {
				fail(w, http.StatusUnauthorized, "signature is already expired")
				return
			}
		}
		if user := q.Get("username"); user != "" && !slices.Contains(m.opts.Users, user) {
			fail(w, http.StatusUnauthorized, "error looking up user '"+user+"'")
			return
		}
		m.account(next)(w, r)
	}
}

// Signature is what lets the bearer of a link read or write one path. Expiration is in
// seconds since 1970, or empty.
func (m *Machine) Signature(path, op, user, expiration string) string {
	text := path + ":" + op + ":" + user + ":" + m.opts.Token
	if expiration != "" {
		text += ":" + expiration
	}
	sum := sha256.Sum256([]byte(text))
	return "v1_" + base64.RawStdEncoding.EncodeToString(sum[:])
}

// rpc checks what every call of the protocol has to have.
func (m *Machine) rpc(next http.Handler) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		method := r.URL.Path[strings.LastIndexByte(r.URL.Path, '/')+1:]
		if !slices.Contains(methods, method) || method == "CloseStdin" && !m.atLeast("0.5.2") {
			if !slices.Contains(methods, method) {
				m.violation("%s is no method", r.URL.Path)
			}
			http.NotFound(w, r)
			return
		}
		kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
		stream := slices.Contains(streams, method)
		switch {
		case err != nil || stream && kind != "application/connect+json" && kind != "application/connect+proto",
			!stream && kind != "application/json" && kind != "application/proto":
			m.violation("%s with content type %q", r.URL.Path, r.Header.Get("Content-Type"))
		case r.Header.Get("Connect-Protocol-Version") != "1":
			m.violation("%s without the protocol's version", r.URL.Path)
		}
		if ms := r.Header.Get("Connect-Timeout-Ms"); ms == "0" {
			m.violation("%s with a deadline of 0 ms", r.URL.Path)
		}
		if v := r.Header.Get("Keepalive-Ping-Interval"); v != "" {
			if n, err := strconv.Atoi(v); err == nil && n <= 0 {
				m.violation("a keep-alive interval of %d brings the daemon down", n)
				m.crash()
				panic(http.ErrAbortHandler)
			}
		}
		next.ServeHTTP(w, r)
	}
}

var (
	streams = []string{"Start", "Connect", "StreamInput", "WatchDir"}
	methods = append([]string{
		"List", "Update", "SendInput", "SendSignal", "CloseStdin", "Stat", "MakeDir", "Move", "ListDir", "Remove",
		"CreateWatcher", "GetWatcherEvents", "RemoveWatcher",
	}, streams...)
)

// crash is what a fault of its own does to the daemon.
func (m *Machine) crash() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.dead = true
}
