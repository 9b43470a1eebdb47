package exec

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/caisson-run/caisson/host/peer"
	"github.com/caisson-run/caisson/sdk/backend"
)

// twoNodes are two replicas with sandboxes of their own. The second passes requests
// on to the first.
func twoNodes(t *testing.T) (owner, other *rig) {
	t.Helper()
	owner, other = newRig(t), newRig(t)
	owner.node, other.node = "b", "a"
	for r, peers := range map[*rig]map[string]string{owner: {"a": other.server.URL}, other: {"b": owner.server.URL}} {
		p, err := peer.New(peer.Options{Node: r.node, Peers: peers, Keys: r.keys})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(p.Close)
		r.peers = p
	}
	return owner, other
}

func TestSessionsOfAnotherNode(t *testing.T) {
	owner, other := twoNodes(t)
	one := owner.exec(alice, "echo 1 > f")
	id := one.SessionID
	f := one.Files[0]

	res := other.exec(alice, "cat f; echo 2 > g", obj{"session_id": id})
	if res.SessionID != id || res.Stdout != "1\n" || fileNames(res.Files) != "g" {
		t.Errorf("a run by way of the other node: %+v", res)
	}
	if res := other.exec(alice, "cat f", obj{"files": one.Files}); res.SessionID != id || res.Stdout != "1\n" {
		t.Errorf("a run that its file leads there: %+v", res)
	}
	if a := other.get(alice, "/download/"+id+"/"+f.ID); a.status != http.StatusOK || string(a.body) != "1\n" {
		t.Errorf("download: %d %s", a.status, a.body)
	}
	if a := other.get(alice, "/files/"+id); a.status != http.StatusOK || !strings.Contains(string(a.body), f.ID) {
		t.Errorf("listing: %d %s", a.status, a.body)
	}
	// The owner admits: who is nobody there gets nothing, whatever the other knows.
	if a := other.get(mallory, "/download/"+id+"/"+f.ID); a.status != http.StatusNotFound {
		t.Errorf("a stranger's download: %d %s", a.status, a.body)
	}
	delete(other.principal, bob)
	if a := other.get(bob, "/download/"+id+"/"+f.ID); a.status != http.StatusOK {
		t.Errorf("whom only the owner knows: %d %s", a.status, a.body)
	}
	delete(owner.principal, service)
	if a := other.get(service, "/download/"+id+"/"+f.ID); a.status != http.StatusUnauthorized {
		t.Errorf("whom only the other node knows: %d %s", a.status, a.body)
	}
	if n := len(other.shells.live()); n != 0 {
		t.Errorf("the other node made %d sandboxes", n)
	}
	if n := owner.shells.created.Load(); n != 1 {
		t.Errorf("the owner made %d sandboxes", n)
	}
	// A session that vanished comes back where it was.
	if err := owner.shells.Delete(t.Context(), backend.Ref{Config: "main", ID: id}); err != nil {
		t.Fatal(err)
	}
	if res := other.exec(alice, "ls", obj{"session_id": id}); res.SessionID != id || res.Stdout != "" || len(other.shells.live()) != 0 {
		t.Errorf("a session that vanished there: %+v", res)
	}
}

func TestUploadIntoASessionOfAnotherNode(t *testing.T) {
	owner, other := twoNodes(t)
	id := owner.exec(alice, "true").SessionID
	text := strings.Repeat("0123456789", 300_000) // more than is kept
	if up := other.upload(alice, field{"session_id", "", id}, csv("big.txt", text)); up.SessionID != id {
		t.Errorf("%+v", up)
	}
	if got := owner.content(id, "big.txt"); got != text {
		t.Errorf("%d bytes arrived, want %d", len(got), len(text))
	}
	if n := len(other.shells.live()); n != 0 {
		t.Errorf("the other node made %d sandboxes", n)
	}
}

func TestNodesThatCannotBeAsked(t *testing.T) {
	owner, other := twoNodes(t)
	one := owner.exec(alice, "echo 1 > f")
	body := obj{"lang": "bash", "code": "ls", "session_id": one.SessionID}
	download := "/download/" + one.SessionID + "/" + one.Files[0].ID
	want := func(name string, a answer, status int) {
		t.Helper()
		if a.status != status || strings.Contains(string(a.body), owner.server.URL) {
			t.Errorf("%s: %d %s, want %d", name, a.status, a.body, status)
		}
	}
	// The two disagree about who has it.
	owner.node = "c"
	p, err := peer.New(peer.Options{Node: "c", Peers: map[string]string{"b": other.server.URL}, Keys: owner.keys})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	agreed := owner.peers
	owner.peers = p
	want("loop", other.post(alice, "/exec", body), http.StatusForbidden) // not meant for c
	owner.node, owner.peers = "b", agreed

	forged := other.request(http.MethodGet, alice, download, nil)
	forged.Header.Set(peer.Header, "1 x")
	want("forged", other.do(forged), http.StatusForbidden)

	unknown, err := peer.New(peer.Options{Node: "a", Peers: map[string]string{"z": owner.server.URL}, Keys: other.keys})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(unknown.Close)
	known := other.peers
	other.peers = unknown
	want("unknown node", other.post(alice, "/exec", body), http.StatusServiceUnavailable)
	want("unknown node", other.get(alice, download), http.StatusServiceUnavailable)
	other.peers = known

	owner.server.Close()
	want("down", other.post(alice, "/exec", body), http.StatusServiceUnavailable)
	want("down", other.get(alice, download), http.StatusServiceUnavailable)
	if n := len(other.shells.live()); n != 0 {
		t.Errorf("%d sandboxes were made in place of one elsewhere", n)
	}
}

// A replica that dies in the middle of its answer takes nobody with it.
func TestCancellationThatBreaksOff(t *testing.T) {
	r := newRig(t)
	dying := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "100")
		w.WriteHeader(http.StatusAccepted)
		_ = http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	}))
	defer dying.Close()
	p, err := peer.New(peer.Options{Node: "a", Peers: map[string]string{"b": dying.URL}, Keys: r.keys})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	r.node, r.peers = "a", p
	into[obj](t, r.post(alice, programPath+"/cancel", obj{"request_id": "x"}), http.StatusAccepted)
}
