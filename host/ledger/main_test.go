package ledger_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/caisson-run/caisson/host"
	"github.com/caisson-run/caisson/host/ledger"
)

// childVariable makes this test binary a process that uses a ledger: its
// value is the role, the arguments follow on the command line.
const childVariable = "LEDGER_TEST_CHILD"

func TestMain(m *testing.M) {
	if role := os.Getenv(childVariable); role != "" {
		if err := child(role, os.Args[1:]); err != nil {
			fmt.Fprintln(os.Stderr, role+":", err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
}

// child prints one line when it has done what its role says, then waits for
// the end of its input, or to be killed.
func child(role string, args []string) error {
	ctx := context.Background()
	l, err := ledger.Open(ctx, args[0], ledger.Options{})
	if err != nil {
		return err
	}
	switch role {
	case "reserve", "start":
		c, err := l.Reserve(ctx, host.Payer(args[1]), host.ActRun, 1)
		if err != nil {
			return err
		}
		if role == "start" {
			err := c.(host.ChargeStarter).Started(ctx, host.Usage{RunID: args[2], Org: "acme", User: "ann", Project: "p", Session: "s1", RequestID: "q1"})
			if err != nil {
				return err
			}
		}
		fmt.Println("ready")
	case "hammer": // runs as many acts as the balance allows
		if _, err := bufio.NewReader(os.Stdin).ReadString('\n'); err != nil { // the starting shot
			return err
		}
		n, err := hammer(ctx, l, args[1])
		if err != nil {
			return err
		}
		fmt.Println(n)
	}
	_, err = io.Copy(io.Discard, os.Stdin)
	return errors.Join(err, l.Close())
}

// hammer reserves, starts and debits one cent at a time from 8 goroutines until
// each is refused for lack of money, and returns how many were let through.
func hammer(ctx context.Context, l *ledger.Ledger, prefix string) (int, error) {
	var mu sync.Mutex
	var passed int
	var failed error
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			for i := 0; ; i++ {
				u := host.Usage{RunID: fmt.Sprintf("%s-%d-%d", prefix, g, i), Org: "acme", Session: "s"}
				err := runOnce(ctx, l, u)
				mu.Lock()
				switch {
				case err == nil:
					passed++
				case !errors.Is(err, host.ErrInsufficient):
					failed = errors.Join(failed, err)
				}
				mu.Unlock()
				if err != nil {
					return
				}
			}
		})
	}
	wg.Wait()
	return passed, failed
}

func runOnce(ctx context.Context, l *ledger.Ledger, u host.Usage) error {
	c, err := l.Reserve(ctx, "acme", host.ActRun, 1)
	if err != nil {
		return err
	}
	defer c.Release()
	if err := c.(host.ChargeStarter).Started(ctx, u); err != nil {
		return err
	}
	u.Outcome = "exit"
	return c.Debit(ctx, u)
}

// process is a running child.
type process struct {
	t     *testing.T
	cmd   *exec.Cmd
	stdin io.WriteCloser
	out   *bufio.Reader
}

func spawn(t *testing.T, role string, args ...string) *process {
	t.Helper()
	cmd := exec.Command(os.Args[0], args...)
	cmd.Env = append(os.Environ(), childVariable+"="+role)
	cmd.Stderr = os.Stderr
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	p := &process{t: t, cmd: cmd, stdin: stdin, out: bufio.NewReader(stdout)}
	t.Cleanup(func() {
		if cmd.ProcessState == nil {
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
		}
	})
	return p
}

func (p *process) line() string {
	p.t.Helper()
	s, err := p.out.ReadString('\n')
	if err != nil {
		p.t.Fatalf("child says nothing: %v", err)
	}
	return strings.TrimSpace(s)
}

func (p *process) kill9() {
	p.t.Helper()
	if err := p.cmd.Process.Kill(); err != nil {
		p.t.Fatal(err)
	}
	_ = p.cmd.Wait()
}

func (p *process) finish() {
	p.t.Helper()
	if err := p.stdin.Close(); err != nil {
		p.t.Fatal(err)
	}
	if err := p.cmd.Wait(); err != nil {
		p.t.Fatal(err)
	}
}

// clock is a settable clock.
type clock struct {
	mu sync.Mutex
	t  time.Time
}

func newClock() *clock { return &clock{t: time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)} }

func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.t
}

func (c *clock) Advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.t = c.t.Add(d)
}

func dbPath(t *testing.T) string { return filepath.Join(t.TempDir(), "ledger.db") }

func openAt(t *testing.T, path string, opt ledger.Options) *ledger.Ledger {
	t.Helper()
	l, err := ledger.Open(t.Context(), path, opt)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	})
	return l
}

var refs struct {
	sync.Mutex
	n int
}

func credit(t *testing.T, l *ledger.Ledger, wallet host.Payer, cents int64) {
	t.Helper()
	refs.Lock()
	refs.n++
	ref := "ref-" + strconv.Itoa(refs.n)
	refs.Unlock()
	if err := l.Credit(t.Context(), wallet, cents, ref); err != nil {
		t.Fatal(err)
	}
}

func reserve(t *testing.T, l *ledger.Ledger, wallet host.Payer, cents int64) host.Charge {
	t.Helper()
	c, err := l.Reserve(t.Context(), wallet, host.ActRun, cents)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func start(t *testing.T, c host.Charge, u host.Usage) {
	t.Helper()
	if err := c.(host.ChargeStarter).Started(t.Context(), u); err != nil {
		t.Fatal(err)
	}
}

func wantBalance(t *testing.T, l *ledger.Ledger, wallet host.Payer, balance, held, spent int64) {
	t.Helper()
	b, err := l.Balance(t.Context(), wallet)
	if err != nil {
		t.Fatal(err)
	}
	if b.Balance != balance || b.Held != held || b.Spent != spent {
		t.Errorf("wallet %q has balance %d, held %d, spent %d; want %d, %d, %d",
			wallet, b.Balance, b.Held, b.Spent, balance, held, spent)
	}
}

func usage(t *testing.T, l *ledger.Ledger, f ledger.Filter) []ledger.Record {
	t.Helper()
	var records []ledger.Record
	for r, err := range l.Usage(t.Context(), f) {
		if err != nil {
			t.Fatal(err)
		}
		records = append(records, r)
	}
	return records
}
