package deployment

import (
	"context"
	"errors"
	"fmt"
	"reflect"

	"github.com/caisson-run/caisson/host"
	"github.com/caisson-run/caisson/host/config"
)

// ErrBlank refuses a file that says nothing where the defaults do not run already: it
// is one that was emptied by mistake, or is being written, more often than not, and
// the defaults ask fewer policies.
var ErrBlank = errors.New("the configuration is empty, which means the defaults, and other than those runs; write {} if they are meant")

// Reload puts file in force where the deployment was opened, or last reloaded,
// with another, and swaps in what was installed since over the plugins in use. It
// returns what changed, one sentence each, and what would need a restart. blank says
// that the file says nothing (see config.Read); it may be ErrBlank.
func (d *Deployment) Reload(ctx context.Context, file config.File, blank bool) ([]string, error) {
	d.reloading.Lock()
	defer d.reloading.Unlock()
	if blank && !reflect.DeepEqual(d.file, file) {
		return nil, ErrBlank
	}
	c, err := file.Host(d.lookup)
	if err != nil {
		return nil, err
	}
	// What was installed first: the file may speak of it.
	reports, found := d.Host.Rediscover(ctx, host.SwapOptions{})
	var changes []string
	for _, r := range reports {
		s := fmt.Sprintf("plugin %s: %s to %s, %s", r.Plugin, r.From.Version, r.To.Version, r.Outcome)
		if r.To.Version == "" {
			s = fmt.Sprintf("plugin %s: %s stays, what is installed cannot be used", r.Plugin, r.From.Version)
		}
		if r.Reason != "" {
			s += ": " + r.Reason
		}
		changes = append(changes, s)
	}
	more, err := d.Host.Reconfigure(ctx, c)
	changes = append(changes, more...)
	if err == nil {
		changes = append(changes, needRestart(d.file, file)...)
		d.file = apply(d.file, file)
	}
	return changes, errors.Join(found, err)
}

// live are the keys that Reload puts in force.
var live = map[string]bool{
	"Backends": true, "DefaultBackend": true, "Policies": true, "Languages": true, "Limits": true, "MaxLimits": true,
}

// apply is a with the keys of b that Reload puts in force: what runs afterwards.
func apply(a, b config.File) config.File {
	to, from := reflect.ValueOf(&a).Elem(), reflect.ValueOf(b)
	for name := range live {
		to.FieldByName(name).Set(from.FieldByName(name))
	}
	return a
}

// needRestart names the keys that differ and cannot change while the server runs.
func needRestart(a, b config.File) (out []string) {
	x, y := reflect.ValueOf(a), reflect.ValueOf(b)
	for i := range x.NumField() {
		f := x.Type().Field(i)
		if !live[f.Name] && !reflect.DeepEqual(x.Field(i).Interface(), y.Field(i).Interface()) {
			out = append(out, f.Tag.Get("yaml")+": takes effect after a restart")
		}
	}
	return out
}
