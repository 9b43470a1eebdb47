package command

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/caisson-run/caisson/host"
	"github.com/caisson-run/caisson/host/config"
	"github.com/caisson-run/caisson/host/ledger"
	"github.com/urfave/cli/v3"
)

func (a *app) ledgerCommand() *cli.Command {
	asJSON := &cli.BoolFlag{Name: "json", Usage: "print JSON"}
	return &cli.Command{
		Name:  "ledger",
		Usage: "look after the wallets of a deployment that keeps its own books",
		Description: "A wallet is the organisation of a bearer token, or what service_key_wallet names.\n" +
			"These commands work beside a running server.",
		Commands: []*cli.Command{
			{
				Name: "credit", Usage: "add cents to a wallet", ArgsUsage: "WALLET CENTS",
				Description: "With the same --ref again nothing is added, so that a payment is never counted twice.",
				Flags: commonFlags(
					&cli.StringFlag{Name: "ref", Usage: "the payment's own `NAME` (default: a random one)"},
					asJSON,
				),
				Action: a.ledgerCredit,
			},
			{
				Name: "cap", Usage: "limit what a wallet may spend in total", ArgsUsage: "WALLET CENTS|none",
				Flags: commonFlags(asJSON), Action: a.ledgerCap,
			},
			{
				Name: "balance", Usage: "print the balance of a wallet", ArgsUsage: "WALLET",
				Flags: commonFlags(asJSON), Action: a.ledgerBalance,
			},
			{
				Name: "usage", Usage: "print the usage record, oldest first",
				Flags: commonFlags(
					&cli.StringFlag{Name: "org", Usage: "only of this `ORG`"},
					&cli.StringFlag{Name: "wallet", Usage: "only what this `WALLET` paid"},
					&cli.StringFlag{Name: "session", Usage: "only of this session `ID`"},
					&cli.DurationFlag{Name: "since", Usage: "only of the last `DURATION`, such as 24h"},
					&cli.BoolFlag{Name: "json", Usage: "print one JSON object a line"},
				),
				Action: a.ledgerUsage,
			},
		},
		Action: func(_ context.Context, cmd *cli.Command) error { return groupAction(cmd) },
	}
}

// withLedger opens the deployment's ledger for f. An absent one is made only
// where create says so.
func (a *app) withLedger(ctx context.Context, cmd *cli.Command, create bool, f func(*ledger.Ledger) error) error {
	s, err := a.settings(cmd)
	if err != nil {
		return err
	}
	if s.Billing.Ledger != config.LedgerSQLite {
		return fmt.Errorf("this deployment keeps no ledger: billing.ledger is %s", s.Billing.Ledger)
	}
	path := s.ledgerPath()
	if create {
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			return err
		}
	} else if _, err := os.Stat(path); errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("there is no ledger at %s yet: the server or \"caisson ledger credit\" makes it", path)
	}
	l, err := ledger.Open(ctx, path, ledger.Options{})
	if err != nil {
		return err
	}
	return errors.Join(f(l), l.Close())
}

func (a *app) ledgerCredit(ctx context.Context, cmd *cli.Command) error {
	if err := exactArgs(cmd, "WALLET", "CENTS"); err != nil {
		return err
	}
	cents, err := strconv.ParseInt(cmd.Args().Get(1), 10, 64)
	if err != nil || cents <= 0 {
		return usagef(cmd, "CENTS must be a positive whole number, not %q", cmd.Args().Get(1))
	}
	wallet, ref := host.Payer(cmd.Args().First()), cmd.String("ref")
	if ref == "" {
		ref = "cli-" + rand.Text()
	}
	return a.withLedger(ctx, cmd, true, func(l *ledger.Ledger) error {
		added, err := l.CreditOnce(ctx, wallet, cents, ref)
		if err != nil {
			return err
		}
		b, err := l.Balance(ctx, wallet)
		if err != nil {
			return err
		}
		if cmd.Bool("json") {
			return printJSON(a.Stdout, creditReport{string(wallet), ref, added, b.Balance})
		}
		if !added {
			_, err = fmt.Fprintf(a.Stdout, "already credited under ref %s; nothing added; balance %d\n", ref, b.Balance)
			return err
		}
		_, err = fmt.Fprintf(a.Stdout, "credited %s with %s (ref %s); balance %d\n", wallet, centsText(cents), ref, b.Balance)
		return err
	})
}

// creditReport is what --json prints of a credit.
type creditReport struct {
	Wallet string `json:"wallet"`
	Ref    string `json:"ref"`
	// Added is false where it was under Ref before.
	Added   bool  `json:"added"`
	Balance int64 `json:"balance"`
}

// capReport is what --json prints of a cap; absent is none.
type capReport struct {
	Wallet string `json:"wallet"`
	Cap    *int64 `json:"cap,omitempty"`
}

func (a *app) ledgerCap(ctx context.Context, cmd *cli.Command) error {
	if err := exactArgs(cmd, "WALLET", "CENTS|none"); err != nil {
		return err
	}
	cents := ledger.NoCap
	if text := cmd.Args().Get(1); text != "none" {
		var err error
		if cents, err = strconv.ParseInt(text, 10, 64); err != nil || cents < 0 {
			return usagef(cmd, "CENTS must be a whole number or none, not %q", text)
		}
	}
	wallet := host.Payer(cmd.Args().First())
	return a.withLedger(ctx, cmd, true, func(l *ledger.Ledger) error {
		if err := l.SetCap(ctx, wallet, cents); err != nil {
			return err
		}
		if cmd.Bool("json") {
			r := capReport{Wallet: string(wallet)}
			if cents != ledger.NoCap {
				r.Cap = &cents
			}
			return printJSON(a.Stdout, r)
		}
		_, err := fmt.Fprintf(a.Stdout, "%s may spend %s\n", wallet, capText(cents))
		return err
	})
}

func capText(cents int64) string {
	if cents == ledger.NoCap {
		return "without a cap"
	}
	return centsText(cents) + " in total"
}

func centsText(n int64) string { return counted(n, "cent") }

func (a *app) ledgerBalance(ctx context.Context, cmd *cli.Command) error {
	if err := exactArgs(cmd, "WALLET"); err != nil {
		return err
	}
	wallet := cmd.Args().First()
	return a.withLedger(ctx, cmd, false, func(l *ledger.Ledger) error {
		b, err := l.Balance(ctx, host.Payer(wallet))
		if err != nil {
			return err
		}
		if cmd.Bool("json") {
			out := struct {
				Wallet  string `json:"wallet"`
				Balance int64  `json:"balance"`
				Held    int64  `json:"held"`
				Spent   int64  `json:"spent"`
				Cap     *int64 `json:"cap,omitempty"`
			}{Wallet: wallet, Balance: b.Balance, Held: b.Held, Spent: b.Spent}
			if b.Cap != ledger.NoCap {
				out.Cap = &b.Cap
			}
			return printJSON(a.Stdout, out)
		}
		_, err = fmt.Fprintf(a.Stdout, "%s: balance %s, held %d, spent %d, may spend %s\n", wallet, centsText(b.Balance), b.Held, b.Spent, capText(b.Cap))
		return err
	})
}

func (a *app) ledgerUsage(ctx context.Context, cmd *cli.Command) error {
	if err := exactArgs(cmd); err != nil {
		return err
	}
	filter := ledger.Filter{Org: cmd.String("org"), Payer: host.Payer(cmd.String("wallet")), Session: cmd.String("session")}
	if d := cmd.Duration("since"); d > 0 {
		filter.Since = time.Now().Add(-d)
	}
	return a.withLedger(ctx, cmd, false, func(l *ledger.Ledger) error {
		if cmd.Bool("json") {
			for r, err := range l.Usage(ctx, filter) {
				if err != nil {
					return err
				}
				if err := printJSONLine(a.Stdout, usageJSON(r)); err != nil {
					return err
				}
			}
			return nil
		}
		t := newTable(a.Stdout, "TIME", "ORG", "WALLET", "ACT", "CENTS", "WALL", "CPU", "IN", "OUT", "OUTCOME", "SESSION")
		for r, err := range l.Usage(ctx, filter) {
			if err != nil {
				return err
			}
			t.row(r.Time.Format(time.RFC3339), dash(r.Org), dash(string(r.Payer)), string(r.Act), fmt.Sprint(r.Cents),
				r.Wall.Round(time.Millisecond).String(), r.CPU.Round(time.Millisecond).String(),
				fmt.Sprint(r.BytesIn), fmt.Sprint(r.BytesOut), dash(r.Outcome), dash(r.Session))
		}
		return t.flush()
	})
}

// usageJSON is the stable form of a usage record, durations in nanoseconds.
func usageJSON(r ledger.Record) any {
	return struct {
		ID         int64     `json:"id"`
		Time       time.Time `json:"time"`
		RunID      string    `json:"run_id"`
		Org        string    `json:"org"`
		User       string    `json:"user,omitempty"`
		Project    string    `json:"project,omitempty"`
		Wallet     string    `json:"wallet,omitempty"`
		Session    string    `json:"session,omitempty"`
		RequestID  string    `json:"request_id,omitempty"`
		Act        string    `json:"act"`
		Cents      int64     `json:"cents"`
		Wall       int64     `json:"wall_ns"`
		CPU        int64     `json:"cpu_ns"`
		Fuel       uint64    `json:"fuel,omitempty"`
		PeakMemory int64     `json:"peak_memory_bytes,omitempty"`
		BytesIn    int64     `json:"bytes_in"`
		BytesOut   int64     `json:"bytes_out"`
		Outcome    string    `json:"outcome"`
		ExitCode   int       `json:"exit_code"`
	}{
		r.ID, r.Time, r.RunID, r.Org, r.User, r.Project, string(r.Payer), r.Session, r.RequestID, string(r.Act),
		r.Cents, int64(r.Wall), int64(r.CPU), r.Fuel, r.PeakMemory, r.BytesIn, r.BytesOut, r.Outcome, r.ExitCode,
	}
}
