package command

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/caisson-run/caisson/host"
	"github.com/caisson-run/caisson/host/cmd/caisson/internal/datadir"
	"github.com/caisson-run/caisson/host/cmd/caisson/internal/deployment"
	"github.com/caisson-run/caisson/host/config"
	"github.com/caisson-run/caisson/host/ledger"
	"github.com/caisson-run/caisson/host/session/binding"
	"github.com/urfave/cli/v3"
)

// probeTimeout bounds the start of the host and all questions to it.
const probeTimeout = 3 * time.Minute

func (a *app) doctorCommand() *cli.Command {
	return &cli.Command{
		Name:  "doctor",
		Usage: "say what is configured, what works, and how to mend what does not",
		Description: "The configured plugins are started for a moment, beside a running server if there\n" +
			"is one, and asked what they can do. No secret is printed. Exits with 1 when a run\n" +
			"would not succeed.",
		Flags: commonFlags(append([]cli.Flag{
			&cli.BoolFlag{Name: "json", Usage: "print JSON"},
		}, logFlags("off")...)...),
		Action: a.doctor,
	}
}

// report is what doctor finds. Its JSON form is stable.
type report struct {
	Version  string              `json:"version"`
	OK       bool                `json:"ok"`
	Checks   []check             `json:"checks"`
	Plugins  []host.PluginStatus `json:"plugins"`
	Backends []backendReport     `json:"backends"`
	// Languages and Limits are those of the default backend.
	Languages []languageReport `json:"languages"`
	Limits    []limitReport    `json:"limits"`
	Settings  []settingReport  `json:"settings"`
}

// verdict of a check: note does not keep runs from succeeding, problem does.
type verdict string

const (
	fine    verdict = "ok"
	note    verdict = "note"
	problem verdict = "problem"
)

type check struct {
	Name   string  `json:"name"`
	State  verdict `json:"state"`
	Detail string  `json:"detail"`
	// Fix is what to do about it.
	Fix string `json:"fix,omitempty"`
}

type backendReport struct {
	ID      string  `json:"id"`
	Plugin  string  `json:"plugin"`
	Default bool    `json:"default,omitempty"`
	Tenant  string  `json:"tenant,omitempty"`
	State   verdict `json:"state"`
	Detail  string  `json:"detail,omitempty"`
	// Probe is what the plugin says of the config, one line.
	Probe string `json:"probe,omitempty"`
	// Languages are those of the tables, as this backend runs them.
	Languages []languageReport `json:"languages,omitempty"`
}

// languageReport is what one language resolves to on a backend.
type languageReport struct {
	ID        string   `json:"id"`
	Name      string   `json:"name"`
	Aliases   []string `json:"aliases,omitempty"`
	Toolchain string   `json:"toolchain,omitempty"`
	Version   string   `json:"version,omitempty"`
	Missing   string   `json:"missing,omitempty"`
}

func (r *report) add(name string, state verdict, fix, format string, args ...any) {
	r.Checks = append(r.Checks, check{name, state, fmt.Sprintf(format, args...), fix})
}

func (a *app) doctor(ctx context.Context, cmd *cli.Command) error {
	if err := exactArgs(cmd); err != nil {
		return err
	}
	s, err := a.settings(cmd)
	if err != nil {
		return err
	}
	log, err := a.logger(cmd)
	if err != nil {
		return err
	}
	ctx, _, release := a.signals(ctx, log)
	defer release()
	r := &report{Version: version(), Languages: []languageReport{}, Backends: []backendReport{}, Limits: []limitReport{}, Settings: []settingReport{}}
	if s.path == "" {
		r.add("configuration", fine, "", "the defaults; name a file with --config")
	} else {
		r.add("configuration", fine, "", "%s", s.path)
	}
	a.checkData(r, s)
	a.checkSecret(r, s)
	a.checkAdmission(r, s)
	a.checkBilling(ctx, r, s)
	a.checkPlugins(ctx, r, s)
	store := a.checkSessions(ctx, r, s, log)
	a.checkHost(ctx, r, s, store, deployment.Options{
		File: s.File, CacheDir: s.cacheDir(false), PluginDirs: s.pluginDirs, LookupEnv: a.LookupEnv, Log: log,
	})
	r.OK = !slices.ContainsFunc(r.Checks, func(c check) bool { return c.State == problem })

	if cmd.Bool("json") {
		err = printJSON(a.Stdout, r)
	} else {
		err = r.print(a.Stdout)
	}
	if err != nil {
		return err
	}
	if !r.OK {
		return exitCode(exitFailure)
	}
	return nil
}

func (a *app) checkData(r *report, s settings) {
	const name = "data directory"
	st, err := os.Stat(s.Data)
	switch {
	case errors.Is(err, os.ErrNotExist):
		r.add(name, fine, "", "%s, made by the first serve", s.Data)
		return
	case err != nil:
		r.add(name, problem, "choose another with --data", "%v", err)
		return
	case !st.IsDir():
		r.add(name, problem, "choose another with --data", "%s is not a directory", s.Data)
		return
	case st.Mode().Perm()&0o022 != 0:
		r.add(name, problem, "chmod 700 "+s.Data, "%s may be written by others", s.Data)
		return
	}
	switch pid, held, err := datadir.Holder(s.Data); {
	case err != nil:
		r.add(name, problem, "", "%s: %v", s.Data, err)
	case held:
		r.add(name, fine, "", "%s, held by process %d", s.Data, pid)
	default:
		r.add(name, fine, "", "%s, held by nobody", s.Data)
	}
}

func (a *app) checkSecret(r *report, s settings) {
	const name = "deployment secret"
	if v, _ := a.LookupEnv(datadir.SecretVariable); strings.TrimSpace(v) != "" {
		if _, err := datadir.KeysFrom(v); err != nil {
			r.add(name, problem, "set "+datadir.SecretVariable+" to 16 or more random bytes, or unset it", "%v", err)
			return
		}
		r.add(name, fine, "", "%d from %s", 1+strings.Count(v, ","), datadir.SecretVariable)
		return
	}
	path := filepath.Join(s.Data, datadir.SecretFile)
	st, err := os.Stat(path)
	switch {
	case errors.Is(err, os.ErrNotExist):
		r.add(name, fine, "", "made by the first serve in %s", path)
	case err != nil:
		r.add(name, problem, "", "%v", err)
	case st.Mode().Perm()&0o077 != 0:
		r.add(name, problem, "chmod 600 "+path, "%s may be read by others", path)
	default:
		r.add(name, fine, "", "%s", path)
	}
}

func (a *app) checkAdmission(r *report, s settings) {
	admitted, byDevKey := s.Admission.Bearer != nil, false
	for _, k := range s.Admission.ServiceKeys {
		name := "service key " + k.ID
		_, err := k.Secret().Read(a.LookupEnv)
		switch {
		case err == nil:
			admitted = true
			r.add(name, fine, "", "set, acts for organisation %s", s.BrandOrg)
		case errors.Is(err, config.ErrUnset) && k == config.Default().Admission.ServiceKeys[0]:
			byDevKey = true
			r.add(name, note, "", "%v", err)
		default:
			r.add(name, problem, "set it, or take the key out of the configuration", "%v", err)
		}
	}
	if b := s.Admission.Bearer; b != nil {
		r.add("bearer tokens", fine, "", "of %s for %s", b.Issuer, strings.Join(b.Audiences, ", "))
	}
	if !admitted {
		s.nobodyAdmitted(r, byDevKey)
	}
}

// nobodyAdmitted reports that there is no credential but, where byDevKey says so,
// the key that `serve --dev` makes in place of the default one.
func (s settings) nobodyAdmitted(r *report, byDevKey bool) {
	const (
		name   = "admission"
		nobody = "nobody is let in: every request is answered 503"
	)
	if !byDevKey {
		r.add(name, problem, "configure a service key or an issuer", nobody)
		return
	}
	set := "set " + config.KeyVariable
	path := filepath.Join(s.Data, datadir.DevKeyFile)
	switch _, err := datadir.ReadDevKey(path); {
	case errors.Is(err, os.ErrNotExist):
		r.add(name, problem, set+", or serve with --dev", nobody)
	case err != nil:
		r.add(name, problem, set+", or mend the file for serve --dev", "%v", err)
	default:
		r.add(name, note, set+" to serve without --dev", "serve --dev lets the key in %s in, serve without it nobody", path)
	}
}

func (a *app) checkBilling(ctx context.Context, r *report, s settings) {
	fee := deployment.Fee(a.LookupEnv, host.ActRun)
	price := "a run costs " + centsText(fee)
	if fee == 0 {
		price = "runs are free"
	}
	wallet := "service keys are unbilled"
	if s.Admission.ServiceKeyWallet != "" {
		wallet = "service keys pay from wallet " + s.Admission.ServiceKeyWallet
	}
	if s.Billing.Ledger == config.LedgerNone {
		r.add("billing", fine, "", "no ledger: nobody is charged")
		return
	}
	path := s.ledgerPath()
	if _, err := os.Stat(path); errors.Is(err, os.ErrNotExist) {
		r.add("billing", fine, "", "%s; %s; ledger %s, made by the first serve", price, wallet, path)
		return
	}
	l, err := ledger.Open(ctx, path, ledger.Options{})
	if err == nil {
		err = l.Close()
	}
	if err != nil {
		r.add("billing", problem, "move the file away to begin a new ledger, or name another with billing.path", "%v", err)
		return
	}
	r.add("billing", fine, "", "%s; %s; ledger %s", price, wallet, path)
}

func (a *app) checkPlugins(ctx context.Context, r *report, s settings) {
	list, err := s.plugins(ctx)
	if err != nil {
		r.add("plugins", problem, "", "%v", err)
		return
	}
	r.Plugins = list
	wanted := s.wanted()
	for _, p := range list {
		if p.State != host.PluginError {
			continue
		}
		state := note
		if wanted[p.Name] != "" {
			state = problem
		}
		r.add("plugin "+p.Name, state, pluginFix(p, s.pluginDirs), "%s", p.Cause)
	}
}

// pluginFix is what to do about a broken plugin. An installed one is not built
// again by make build, which goes by the time of files.
func pluginFix(p host.PluginStatus, dirs []string) string {
	switch {
	case p.Fix != "":
		return p.Fix
	case p.Dir == "":
		return "build it (make build), or install it in one of: " + strings.Join(dirs, ", ")
	default:
		return "install it again; in the source tree: make -B build"
	}
}

// checkHost opens a host of its own, beside the deployment's, and asks it.
func (a *app) checkHost(ctx context.Context, r *report, s settings, store binding.Report, o deployment.Options) {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	d, err := deployment.Local(ctx, o)
	if err != nil {
		r.add("host", problem, "", "%v", err)
		return
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeTimeout)
		defer cancel()
		if err := d.Close(ctx); err != nil {
			r.add("host", note, "", "stopped badly: %v", err)
		}
	}()
	if err := awaitHost(ctx, d.Host, s.DefaultBackend); err != nil {
		r.add("host", problem, "", "a run would not succeed: %v", err)
	} else {
		r.add("host", fine, "", "the default backend can run programs")
	}
	r.Settings = settingsInForce(s, d.Exec.Options())
	for _, b := range s.Backends {
		r.Backends = append(r.Backends, probe(ctx, r, d.Host, b, b.ID == s.DefaultBackend))
		s.checkReach(ctx, r, d.Host, b.ID, store)
	}
}

// probe asks one named config what it can do, and what the default one allows.
func probe(ctx context.Context, r *report, h *host.Host, b config.Backend, isDefault bool) backendReport {
	out := backendReport{ID: b.ID, Plugin: b.Plugin, Tenant: b.Tenant, Default: isDefault, State: problem}
	t, err := h.Target(ctx, b.ID)
	if err != nil {
		out.Detail = err.Error()
		return out
	}
	defer t.Release()
	health, err := t.Backend.Health(ctx)
	switch {
	case err != nil:
		out.Detail = err.Error()
	case !health.Ready:
		out.Detail = health.Reason
	default:
		out.State, out.Detail = fine, fmt.Sprintf("%s %s is ready", t.Info.Name, t.Info.Version)
	}
	switch report, err := h.Probe(ctx, b.ID); {
	case err != nil && out.State == fine:
		out.State, out.Detail = problem, err.Error()
	case err == nil:
		out.Probe = report.Detail
		if !report.OK && out.State == fine {
			out.State, out.Detail = problem, "no sandbox could be made"
		}
	}
	out.Languages = languages(h.Offers(t))
	if isDefault {
		r.Languages = out.Languages
		r.Limits = limits(h, t)
	}
	return out
}

func languages(offers []host.Offer) []languageReport {
	out := make([]languageReport, len(offers))
	for i, o := range offers {
		out[i] = languageReport{ID: o.ID, Name: o.Name, Aliases: o.Aliases, Toolchain: o.Toolchain, Version: o.Version, Missing: o.Missing}
	}
	return out
}
