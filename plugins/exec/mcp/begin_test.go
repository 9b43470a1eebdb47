package mcp

import (
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// beginning mounts a server and returns how a user sends the request that begins a session.
func beginning(t *testing.T, o Options) (begin func(w http.ResponseWriter, user, body string)) {
	t.Helper()
	o.Handler = nothing
	s, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	m := &alone{mux: http.NewServeMux()}
	s.Mount(m)
	t.Cleanup(func() {
		if err := m.closers[0](t.Context()); err != nil {
			t.Error(err)
		}
	})
	return func(w http.ResponseWriter, user, body string) {
		r := httptest.NewRequest(http.MethodPost, Path, strings.NewReader(body))
		r.Header.Set("X-User", user)
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Accept", "application/json, text/event-stream")
		m.mux.ServeHTTP(w, r)
	}
}

// unread is a client that takes no byte of an answer until it is let go.
type unread struct {
	*httptest.ResponseRecorder
	once  sync.Once
	asked chan struct{} // when the first byte is there
	free  chan struct{}
}

func newUnread() *unread {
	return &unread{ResponseRecorder: httptest.NewRecorder(), asked: make(chan struct{}), free: make(chan struct{})}
}

func (u *unread) Write(p []byte) (int, error) {
	u.once.Do(func() { close(u.asked) })
	<-u.free
	return u.ResponseRecorder.Write(p)
}

// Nobody waits for the reader of a session that begins, and it counts all the while.
func TestUnreadBeginning(t *testing.T) {
	begin := beginning(t, Options{Sessions: 2, TenantSessions: 2, AllSessions: 4, Stall: time.Minute})
	slow := newUnread()
	answered := make(chan struct{})
	go func() {
		defer close(answered)
		begin(slow, "u", hello)
	}()
	<-slow.asked
	// What is not the beginning of a session leaves nothing that counts.
	for range 5 {
		begin(httptest.NewRecorder(), "u", notice)
	}
	read := func(user string) int {
		w := httptest.NewRecorder()
		begin(w, user, hello)
		return w.Code
	}
	if got := []int{read("u"), read("u"), read("v")}; got[0] != 200 || got[1] != 200 || got[2] != 429 {
		t.Errorf("beside one that is not read: %v, want 200, 200 in the place of that, and 429 of another user", got)
	}
	close(slow.free)
	<-answered
	if slow.Code != 200 || slow.Header().Get(sessionHeader) == "" {
		t.Errorf("the slow reader: %d", slow.Code)
	}
}

// However many callers of an organisation begin at once, they get no more than its bound.
func TestBeginningsAtOnce(t *testing.T) {
	for range 20 {
		begin := beginning(t, Options{Sessions: 2, TenantSessions: 3, AllSessions: 64})
		var wg sync.WaitGroup
		codes := make([]int, 24)
		start := make(chan struct{})
		for i := range codes {
			wg.Go(func() {
				w := httptest.NewRecorder()
				<-start
				begin(w, strconv.Itoa(i), hello)
				codes[i] = w.Code
			})
		}
		close(start)
		wg.Wait()
		n := 0
		for _, code := range codes {
			if code == 200 {
				n++
			} else if code != 429 {
				t.Errorf("status %d", code)
			}
		}
		if n != 3 {
			t.Errorf("%d sessions, want 3", n)
		}
	}
}
