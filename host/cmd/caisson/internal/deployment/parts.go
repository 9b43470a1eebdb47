package deployment

import (
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/caisson-run/caisson/host"
	"github.com/caisson-run/caisson/host/admission"
	"github.com/caisson-run/caisson/host/config"
	"github.com/caisson-run/caisson/plugins/exec"
	"github.com/caisson-run/caisson/plugins/exec/mcp"
)

// admission reads the service keys and puts admission together. Keys that the
// environment leaves unset are a warning where the file did not ask for them,
// and an error where it did.
func (o Options) admission(d *Deployment, wallets admission.Wallets) (*admission.Admission, error) {
	f := o.File.Admission
	c := admission.Config{
		BrandOrg:         o.File.BrandOrg,
		ServiceKeyWallet: host.Payer(f.ServiceKeyWallet),
		Wallets:          wallets,
		Priced: func(host.Act) bool {
			// What is not billed itself needs standing only where runs are billed.
			return o.File.Billing.Ledger != config.LedgerNone && Fee(o.LookupEnv, host.ActRun) > 0
		},
		Log: o.Log.Named("admission"),
	}
	for _, k := range f.ServiceKeys {
		secret, err := k.Secret().Read(o.LookupEnv)
		switch {
		case err == nil:
			c.Keys = append(c.Keys, admission.Key{ID: k.ID, Secret: secret})
		case errors.Is(err, config.ErrUnset) && k == config.Default().Admission.ServiceKeys[0]:
			if f.Bearer != nil {
				d.warnings = append(d.warnings, config.KeyVariable+" is not set: nobody is let in by service key")
			}
		default:
			return nil, fmt.Errorf("service key %q: %w", k.ID, err)
		}
	}
	if b := f.Bearer; b != nil {
		c.Bearer = &admission.Bearer{
			Issuer: b.Issuer, Audiences: b.Audiences, JWKSURL: b.JWKSURL,
			OrgClaim: b.OrgClaim, PayerClaim: b.PayerClaim, Leeway: time.Duration(b.Leeway),
		}
	}
	if len(c.Keys) == 0 && c.Bearer == nil {
		d.warnings = append(d.warnings, "no credential is configured: every request is answered 503; set "+config.KeyVariable+" and start again")
	}
	return admission.New(c)
}

// mcp is the protocol's part of the configuration; what tools ask for is answered by the
// router, like everything else.
func (o Options) mcp(router http.Handler) mcp.Options {
	f := o.File
	return mcp.Options{
		Handler: router, Version: o.Version, Telemetry: o.Telemetry,
		Hosts: f.MCP.Hosts, Sessions: int(f.MCP.Sessions), Idle: time.Duration(f.MCP.Idle),
		OutputBytes: int(f.MCP.OutputBytes), BodyBytes: int64(f.Requests.MaxBytes), BodyMemoryBytes: int64(f.Requests.Memory),
	}
}

func rates(s config.RateSet) map[exec.RateClass]exec.Rate {
	m := make(map[exec.RateClass]exec.Rate)
	for class, r := range map[exec.RateClass]config.Rate{
		exec.RateRuns: s.Runs, exec.RateRounds: s.Rounds, exec.RateUploads: s.Uploads,
		exec.RateDownloads: s.Downloads, exec.RateReads: s.Reads,
	} {
		m[class] = exec.Rate{Requests: int(r.Requests), Per: time.Duration(r.Per), Burst: int(r.Burst)}
	}
	return m
}

// exec is the entry's part of the configuration; zero members are its defaults.
func (o Options) exec() exec.Options {
	f := o.File
	return exec.Options{
		TenantShare: int(f.Queue.TenantShare),
		MemoryBytes: int64(f.Queue.Memory), TenantMemoryBytes: int64(f.Queue.TenantMemory),
		Rates: rates(f.Rates.Users), KeyRates: rates(f.Rates.ServiceKeys), RatePrincipals: int(f.Rates.Principals),

		Fee:              func() int64 { return Fee(o.LookupEnv, host.ActRun) },
		Running:          int(f.Queue.Running),
		Waiting:          int(f.Queue.Waiting),
		TenantRunning:    int(f.Queue.TenantRunning),
		TenantWaiting:    int(f.Queue.TenantWaiting),
		MaxWait:          time.Duration(f.Queue.MaxWait),
		Programs:         int(f.Programs.Live),
		TenantPrograms:   int(f.Programs.TenantLive),
		ProgramTTL:       time.Duration(f.Programs.TTL),
		BodyBytes:        int64(f.Requests.MaxBytes),
		BodyMemoryBytes:  int64(f.Requests.Memory),
		UploadBytes:      int64(f.Uploads.MaxBytes),
		UploadFiles:      int(f.Uploads.MaxFiles),
		QuotaFiles:       int64(f.Uploads.TenantFiles),
		QuotaBytes:       int64(f.Uploads.TenantBytes),
		ChangedFiles:     int(f.Artifacts.MaxFiles),
		ChangedFileBytes: int64(f.Artifacts.MaxFileBytes),
		ChangedDepth:     int(f.Artifacts.MaxDepth),
	}
}
