package e2e

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"database/sql"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
	_ "modernc.org/sqlite" // to look at what a crash leaves
)

// started counts the acts that the ledger knows to have begun and not ended.
func (p place) started(t *testing.T) int {
	t.Helper()
	db, err := sql.Open("sqlite", "file:"+filepath.Join(p.data, "ledger.db")+"?mode=ro&_pragma=busy_timeout(5000)")
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	var n int
	if err := db.QueryRowContext(t.Context(), "SELECT count(*) FROM holds WHERE started IS NOT NULL").Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

// A crash after a program started is debited once, by the next start; and the
// plugin does not outlive its host.
func TestCrash(t *testing.T) {
	t.Parallel()
	p := newPlace(t, "CODE_EXEC_API_KEY="+testKey)
	config := p.config(t, "admission: {service_key_wallet: acme}\n")
	p.ledger(t, "credit", "acme", "10")
	s := p.serve(t, "--config", config).ready(t)
	run := s.sleeping(t, 25)
	s.signal(t, syscall.SIGKILL)
	<-s.exited
	<-run
	waitFor(t, "every process of the killed server is gone", func() bool { return len(p.processes()) == 0 })
	// Its sockets lie about, as after any kill.
	clearDir(t, p.tmp)

	if n := p.started(t); n != 1 {
		t.Errorf("%d acts are on record as begun, want 1", n)
	}
	for range 2 { // a second restart settles nothing more
		s = p.serve(t, "--config", config).ready(t)
		if out := p.ledger(t, "balance", "acme"); !strings.HasPrefix(out, "acme: balance 9 cents, held 0, spent 1,") {
			t.Errorf("balance after a restart: %s", out)
		}
		s.stop(t)
	}
	out := p.ledger(t, "usage", "--json")
	if strings.Count(out, "\n") != 1 || !strings.Contains(out, `"outcome":"lost"`) {
		t.Errorf("usage = %s, want one lost run", out)
	}
}

func waitFor(t *testing.T, what string, ok func() bool) {
	t.Helper()
	if !poll(nil, ok) {
		t.Fatalf("not in time: %s", what)
	}
}

func clearDir(t *testing.T, dir string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if err := os.RemoveAll(filepath.Join(dir, e.Name())); err != nil {
			t.Fatal(err)
		}
	}
}

// issuer signs tokens and publishes its key.
type issuer struct {
	url    string
	signer jose.Signer
}

func newIssuer(t *testing.T) issuer {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	set, err := json.Marshal(jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{Key: key.Public(), KeyID: "k", Algorithm: "ES256", Use: "sig"}}})
	if err != nil {
		t.Fatal(err)
	}
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(set)
	}))
	t.Cleanup(srv.Close)
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.ES256, Key: jose.JSONWebKey{Key: key, KeyID: "k"}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return issuer{srv.URL, signer}
}

func (i issuer) token(t *testing.T, org string, expires time.Duration) string {
	t.Helper()
	now := time.Now()
	raw, err := jwt.Signed(i.signer).Claims(jwt.Claims{
		Issuer: "https://id.example.com", Audience: jwt.Audience{"caisson"}, Subject: "u",
		IssuedAt: jwt.NewNumericDate(now.Add(-time.Hour)), Expiry: jwt.NewNumericDate(now.Add(expires)),
	}).Claims(map[string]any{"org_id": org}).Serialize()
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

// bearer runs a program under a token.
func (s *server) bearer(t *testing.T, token, body string) reply {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.url+"/v1/exec", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+token)
	r, err := s.do(req)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestBearerPays(t *testing.T) {
	t.Parallel()
	i := newIssuer(t)
	p := newPlace(t, "CODE_EXEC_API_KEY="+testKey)
	config := p.config(t, fmt.Sprintf("admission: {bearer: {issuer: 'https://id.example.com', audiences: [caisson], jwks_url: '%s/keys'}}\n", i.url))
	s := p.serve(t, "--config", config).ready(t)

	wantStatus(t, "no balance", s.bearer(t, i.token(t, "poor", time.Hour), program("print(1)")), 402, "insufficient_balance")
	wantStatus(t, "expired", s.bearer(t, i.token(t, "poor", -30*time.Minute), program("print(1)")), 401, `"`)
	wantStatus(t, "no organisation", s.bearer(t, i.token(t, "", time.Hour), program("print(1)")), 403, `"`)
	if out := p.ledger(t, "usage"); strings.Count(out, "\n") != 1 {
		t.Errorf("refused runs are in the usage record: %s", out)
	}
	if dirs := p.sandboxes(t); len(dirs) != 0 {
		t.Errorf("refused runs left sandboxes: %v", dirs)
	}

	// Five at once cannot share one cent.
	p.ledger(t, "credit", "acme", "1")
	token := i.token(t, "acme", time.Hour)
	status := make([]int, 5)
	var wg sync.WaitGroup
	for n := range status {
		wg.Go(func() { status[n] = s.bearer(t, token, program("import time; time.sleep(0.2)")).status })
	}
	wg.Wait()
	count := map[int]int{}
	for _, c := range status {
		count[c]++
	}
	if count[200] != 1 || count[402] != 4 {
		t.Errorf("five runs on one cent: %v, want one 200 and four 402", count)
	}
	if out := p.ledger(t, "balance", "acme"); !strings.HasPrefix(out, "acme: balance 0 cents, held 0, spent 1,") {
		t.Errorf("balance: %s", out)
	}
	if dirs := p.sandboxes(t); len(dirs) != 1 {
		t.Errorf("sandboxes: %v, want one", dirs)
	}
	s.stop(t)
}

// sandboxes are the sessions of the embedded backend that are on disk.
func (p place) sandboxes(t *testing.T) []string {
	t.Helper()
	dirs, err := filepath.Glob(filepath.Join(p.data, "plugins", "wasm", "sessions", "*", "*"))
	if err != nil {
		t.Fatal(err)
	}
	return dirs
}
