package mcp

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"iter"
	"sync"

	"github.com/caisson-run/caisson/host"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// owner is one caller: everything that a session of theirs may be used by.
type owner struct {
	org, user, key string
	via            host.Via
}

func ownerOf(p host.Principal) owner {
	return owner{org: p.Org, user: p.User, key: p.KeyID, via: p.Via}
}

// owners are the callers of now, with a server each, since the library gives every
// session of a server the same abilities and counts them by server.
type owners struct {
	o   Options
	key []byte // of this process: sessions do not outlive it
	new func(sessionID func() string) *sdk.Server

	mu  sync.Mutex
	all map[owner]*owned
	// under is what goes on of everybody, orgs of each organisation that has anything.
	under underWay
	orgs  map[string]*underWay
	ends  uint64 // counts requests and streams that ended
}

// underWay counts requests that are answered, and streams that a client only listens to.
type underWay struct{ requests, streams int }

func (u *underWay) of(stream bool) *int {
	if stream {
		return &u.streams
	}
	return &u.requests
}

// owned is what one caller has.
type owned struct {
	org    string
	server *sdk.Server
	under  underWay // guarded by owners.mu
	// calls are places for tool calls.
	calls chan struct{}
	// creating is held while a session is counted, until the library has asked for its
	// id, and birth is then the session's use.
	creating sync.Mutex
	birth    *use
	// births are requests that may make a session, or made one and are still answered;
	// uses are of sessions, by their ids. Both are guarded by owners.mu.
	births int
	uses   map[string]*use
}

// use is how much of a session is used.
type use struct {
	now   int    // requests and streams under way
	last  uint64 // when the last one ended, by owners.ends
	new   bool   // has an id, and is still counted as a birth
	ended bool   // to make room
}

func newOwners(o Options, server func(sessionID func() string) *sdk.Server) *owners {
	w := &owners{o: o, key: make([]byte, 32), new: server, all: make(map[owner]*owned), orgs: make(map[string]*underWay)}
	_, _ = rand.Read(w.key) // never fails
	return w
}

// enter takes a place for a request of a caller, or for a stream that they listen to,
// in the session of that id where it has one.
func (w *owners) enter(who owner, stream bool, id string) (own *owned, leave func(), refused *host.HTTPError) {
	w.mu.Lock()
	defer w.mu.Unlock()
	own = w.all[who]
	if own == nil {
		w.prune()
		own = &owned{org: who.org, calls: make(chan struct{}, w.o.Requests), uses: make(map[string]*use)}
		own.server = w.new(func() string { return w.began(who, own) })
		own.server.AddReceivingMiddleware(own.bounded)
		w.all[who] = own
	}
	u := own.uses[id]
	switch {
	case u == nil:
		u = new(use) // nobody's, or of a session that is gone
	case u.ended:
		return nil, nil, unknown()
	}
	org := w.orgs[who.org]
	if org == nil {
		org = new(underWay)
	}
	mine, theirs, all := own.under.of(stream), org.of(stream), w.under.of(stream)
	mineMax, theirsMax, allMax := w.o.Requests, w.o.TenantRequests, w.o.AllRequests
	if stream {
		mineMax, theirsMax, allMax = w.o.Sessions, w.o.TenantSessions, w.o.AllSessions
	}
	if *mine >= mineMax || *theirs >= theirsMax || *all >= allMax {
		return nil, nil, busy("too many requests at once")
	}
	w.orgs[who.org] = org
	*mine++
	*theirs++
	*all++
	u.now++
	return own, func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		*mine--
		*theirs--
		*all--
		if *org == (underWay{}) {
			delete(w.orgs, who.org)
		}
		u.now--
		w.ends++
		u.last = w.ends
	}, nil
}

// began is the id of a session that is being made, by who holds the caller's creating. The
// library asks for it before it waits for anybody.
func (w *owners) began(who owner, own *owned) string {
	id := w.mint(who)
	defer own.creating.Unlock()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ends++
	own.birth.last, own.birth.new = w.ends, true
	own.uses[id] = own.birth
	return id
}

// begin has a request of a caller make a session if there is room for one: sessions are
// made one by one for each caller, and counted from before they are made. How long the
// answer takes keeps nobody else from beginning.
func (w *owners) begin(own *owned, serve func()) bool {
	own.creating.Lock()
	if !w.room(own) {
		own.creating.Unlock()
		return false
	}
	u := new(use)
	own.birth = u
	defer func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		own.births--
		if !u.new { // the library did not ask
			own.creating.Unlock()
		}
		u.new = false
	}()
	serve()
	return true
}

// prune forgets callers who have nothing, once there are many.
func (w *owners) prune() {
	if len(w.all) < w.o.AllSessions {
		return
	}
	for who, own := range w.all {
		if own.under == (underWay{}) && own.sessions() == 0 {
			delete(w.all, who)
		}
	}
}

// sessions counts a caller's, with those that are being made. owners.mu is held.
func (o *owned) sessions() int {
	n := o.births
	for id := range o.lasting() {
		if u := o.uses[id]; u == nil || !u.new && !u.ended {
			n++
		}
	}
	return n
}

// lasting are a caller's sessions by their ids. The library makes one for each request
// that stands alone as well, without an id.
func (o *owned) lasting() iter.Seq2[string, *sdk.ServerSession] {
	return func(yield func(string, *sdk.ServerSession) bool) {
		for s := range o.server.Sessions() {
			if id := s.ID(); id != "" && !yield(id, s) {
				return
			}
		}
	}
}

// room takes a place for a further session of a caller, whose creating is held, and
// reports whether there was one. At a bound it ends the one of theirs that was unused for
// longest: clients that never end a session would otherwise be shut out until theirs are
// idle for too long.
func (w *owners) room(own *owned) bool {
	w.mu.Lock()
	all, theirs, mine := 0, 0, own.sessions()
	for _, o := range w.all {
		n := o.sessions()
		if all += n; o.org == own.org {
			theirs += n
		}
	}
	uses := make(map[string]*use)
	var oldest *use
	var end *sdk.ServerSession
	for id, u := range own.uses {
		if u.new {
			uses[id] = u
		}
	}
	for id, s := range own.lasting() {
		u := own.uses[id]
		if u == nil || u.ended {
			continue
		}
		uses[id] = u
		if u.now == 0 && !u.new && (oldest == nil || u.last < oldest.last) {
			oldest, end = u, s
		}
	}
	own.uses = uses // those that are gone need none
	if mine < w.o.Sessions && theirs < w.o.TenantSessions && all < w.o.AllSessions {
		own.births++
		w.mu.Unlock()
		return true
	}
	if oldest != nil {
		oldest.ended = true
		own.births++
	}
	w.mu.Unlock()
	if end == nil {
		return false
	}
	_ = end.Close() // its client is told when it comes again
	return true
}

// close ends every session.
func (w *owners) close() {
	w.mu.Lock()
	all := w.all
	w.all = make(map[owner]*owned)
	w.mu.Unlock()
	for _, own := range all {
		for s := range own.server.Sessions() {
			_ = s.Close() // its client has gone or is being told
		}
	}
}

// Session ids prove whose they are: one that somebody else presents is answered like one
// that never was, without being looked up.
const (
	idRandom = 18
	idTag    = 18
)

func (w *owners) mint(who owner) string {
	b := make([]byte, idRandom, idRandom+idTag)
	_, _ = rand.Read(b) // never fails
	return base64.RawURLEncoding.EncodeToString(append(b, w.tag(who, b)...))
}

func (w *owners) owns(who owner, id string) bool {
	if len(id) != base64.RawURLEncoding.EncodedLen(idRandom+idTag) {
		return false // the decoder would pass over line ends
	}
	b, err := base64.RawURLEncoding.Strict().DecodeString(id)
	return err == nil && len(b) == idRandom+idTag && hmac.Equal(b[idRandom:], w.tag(who, b[:idRandom]))
}

func (w *owners) tag(who owner, random []byte) []byte {
	h := hmac.New(sha256.New, w.key)
	h.Write(random)
	for _, s := range []string{who.org, who.user, who.key, string(who.via)} {
		h.Write([]byte{byte(len(s) >> 8), byte(len(s))}) // lengths keep members apart; none is as long as that
		h.Write([]byte(s))
	}
	return h.Sum(nil)[:idTag]
}
