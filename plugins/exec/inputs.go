package exec

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"slices"
	"strings"

	"github.com/caisson-run/caisson/host/session"
	"github.com/caisson-run/caisson/plugins/exec/internal/names"
	"github.com/caisson-run/caisson/sdk/backend"
)

// input is one input ref that was found.
type input struct {
	ref    CodeFile
	source string // the session that holds it
	name   string // where the program finds it
	size   int64
	// shared inputs are copies of what others use too: whatever the run does to
	// its copy is not reported.
	shared bool
	// changed says that the session holds a later version than the ref names.
	changed bool
	// missing is set when the backend could not place it.
	missing bool
}

// inputs are the refs of a request, resolved against a session.
type inputs struct {
	found   []*input
	missing []string // names, for people
	notes   []string
	specs   []backend.Input
	// opens holds, by index in specs, where chunked content comes from.
	opens map[int]func(context.Context) (io.ReadCloser, error)
}

// resolve finds the refs of a run that happens in x. What is not there, is not
// the caller's or has no usable name is missing, which fails nothing; a source
// that cannot be asked is an error.
func (i *Interpreter) resolve(ctx context.Context, f *finder, in *CodeRun, x *finding, fresh bool) (*inputs, error) {
	r := &resolver{
		finder: f, run: in, at: x, fresh: fresh,
		in:     &inputs{opens: make(map[int]func(context.Context) (io.ReadCloser, error))},
		byName: make(map[string]int), absent: make(map[string]string), seen: make(map[[3]string]bool),
	}
	if !fresh && len(in.Files) > 0 {
		if _, err := f.files(ctx, x); err != nil {
			return nil, err
		}
	}
	for k := range in.Files {
		if err := r.ref(ctx, &in.Files[k]); err != nil {
			return nil, err
		}
	}
	r.settle()
	for k := range in.Files { // in the order of the request
		shown := names.Show(in.Files[k].Name)
		if name, absent := r.absent[in.Files[k].Name]; absent {
			delete(r.absent, in.Files[k].Name)
			if _, placed := r.byName[name]; !placed {
				r.in.missing = append(r.in.missing, shown)
			}
		}
	}
	for _, p := range r.picked {
		r.place(p)
	}
	return r.in, nil
}

// settle leaves out inputs that need a directory where another one is a file, or
// the other way round. What the session has already stays, and of the rest the
// last one of the request, as with inputs of one name.
func (r *resolver) settle() {
	order := slices.SortedFunc(slices.Values(r.picked), func(a, b picked) int {
		if a.there != b.there {
			return cmp.Compare(rank(b.there), rank(a.there))
		}
		return cmp.Compare(b.turn, a.turn)
	})
	files, dirs := make(map[string]bool), make(map[string]string) // dirs: for which file
	out := make(map[string]string)
	for _, p := range order {
		if below, taken := dirs[p.name]; taken {
			out[p.name] = fmt.Sprintf("%s cannot be placed: %s needs a directory of that name", names.Show(p.ref.Name), names.Show(below))
			continue
		}
		if dir := slices.IndexFunc(names.Parents(p.name), func(d string) bool { return files[d] }); dir >= 0 {
			out[p.name] = fmt.Sprintf("%s cannot be placed: %s is a file", names.Show(p.ref.Name), names.Show(names.Parents(p.name)[dir]))
			continue
		}
		files[p.name] = true
		for _, d := range names.Parents(p.name) {
			dirs[d] = p.name
		}
	}
	r.picked = slices.DeleteFunc(r.picked, func(p picked) bool {
		note, left := out[p.name]
		if left {
			r.in.missing = append(r.in.missing, names.Show(p.ref.Name))
			r.in.notes = append(r.in.notes, note)
		}
		return left
	})
}

func rank(there bool) int {
	if there {
		return 1
	}
	return 0
}

type resolver struct {
	finder *finder
	run    *CodeRun
	at     *finding
	fresh  bool

	in     *inputs
	picked []picked
	byName map[string]int    // index in picked
	absent map[string]string // names as sent that are missing, as resolved
	seen   map[[3]string]bool
}

type picked struct {
	*input
	from  *finding
	entry backend.Entry
	turn  int  // when it was picked
	there bool // the session has it in its place already
}

// ref resolves one ref. Of several for one name the last that exists counts:
// refusing them would break the conversation that carries them for good
// (docs/wire.md).
func (r *resolver) ref(ctx context.Context, ref *CodeFile) error {
	source := ref.session(r.run.SessionID)
	if key := [3]string{source, ref.ID, ref.Name}; r.seen[key] {
		return nil
	} else {
		r.seen[key] = true
	}
	name, err := names.Ref(ref.Name)
	if err != nil || source == "" {
		r.absent[ref.Name] = name
		return nil
	}
	from, err := r.finder.lookup(ctx, source)
	var ix *index
	if err == nil {
		ix, err = r.finder.files(ctx, from)
	}
	var e backend.Entry
	if err == nil {
		e, err = r.finder.file(ctx, from, ref.ID)
	}
	changed := false
	if gone(err) && ix != nil && from == r.at {
		// The session has moved on from that version, and the program finds the
		// current one under the name it was told.
		if e, changed = from.named(name); changed {
			err = nil
		}
	}
	if gone(err) {
		r.absent[ref.Name] = name
		return nil
	}
	if err != nil {
		return err
	}
	p := picked{
		input: &input{
			ref: *ref, source: source, name: name, size: e.Size, changed: changed,
			// In the session itself there is no copy: what changes, changed.
			shared: from != r.at && (sharedRef(ref) || shared(from.Sandbox.Metadata)),
		},
		from: from, entry: e, turn: len(r.seen),
	}
	p.there = changed || r.present(p)
	if k, taken := r.byName[name]; taken {
		r.in.notes = append(r.in.notes, fmt.Sprintf("several input files are named %s; the last one is used", names.Show(name)))
		r.picked[k] = p
		return nil
	}
	r.byName[name] = len(r.picked)
	r.picked = append(r.picked, p)
	return nil
}

// place says how the backend gets an input to where it belongs, unless it is
// there already.
func (r *resolver) place(p picked) {
	in := r.in
	in.found = append(in.found, p.input)
	if p.there {
		return
	}
	spec := backend.Input{Path: names.Absolute(p.name), Optional: true}
	if p.from.Config == r.at.Config {
		spec.CopyFrom = &backend.CopySource{ID: p.from.Sandbox.ID, Path: p.entry.Path, SHA256: p.entry.SHA256}
	} else {
		spec.Chunked = true
		in.opens[len(in.specs)] = func(ctx context.Context) (io.ReadCloser, error) {
			return openVersion(ctx, p.from.Session, p.entry)
		}
	}
	in.specs = append(in.specs, spec)
}

// present reports whether the session has the input's content at its place.
func (r *resolver) present(p picked) bool {
	if p.from == r.at && p.entry.Path == names.Absolute(p.name) {
		return true
	}
	if r.fresh || p.entry.SHA256 == "" || r.at.index == nil {
		return false
	}
	have, ok := r.at.index.byName[p.name]
	return ok && have.SHA256 == p.entry.SHA256
}

// openVersion reads one version of a file: content that changed since it was
// found is an error, never a mixture.
func openVersion(ctx context.Context, x session.Session, e backend.Entry) (io.ReadCloser, error) {
	body, now, err := x.Backend.ReadFile(ctx, x.Sandbox.Ref, e.Path)
	if err != nil {
		return nil, err
	}
	if now.Size != e.Size || now.SHA256 != "" && e.SHA256 != "" && now.SHA256 != e.SHA256 {
		return nil, errors.Join(errChanged, body.Close())
	}
	if e.SHA256 == "" {
		return body, nil
	}
	return &verified{ReadCloser: body, left: e.Size, want: e.SHA256, hash: sha256.New()}, nil
}

// errChanged: a file is no longer the one that was asked for.
var errChanged = errors.New("the file changed meanwhile")

// verified holds the last bytes back until all of them have the digest.
type verified struct {
	io.ReadCloser
	left int64
	want string
	hash hash.Hash
}

func (v *verified) Read(p []byte) (int, error) {
	n, err := v.ReadCloser.Read(p)
	v.hash.Write(p[:n])
	v.left -= int64(n)
	if v.left < 0 || err == io.EOF && v.left > 0 {
		return 0, errChanged
	}
	if v.left == 0 && hex.EncodeToString(v.hash.Sum(nil)) != v.want {
		return 0, errChanged
	}
	return n, err
}

// unplaced marks what the backend reports as missing.
func (in *inputs) unplaced(paths []string) {
	byName := make(map[string]*input, len(in.found)) // no two have the same
	for _, x := range in.found {
		byName[x.name] = x
	}
	for _, p := range paths {
		name, _ := names.Relative(p)
		if x := byName[name]; x != nil && !x.missing {
			x.missing = true
			in.missing = append(in.missing, names.Show(x.ref.Name))
		}
	}
}

// preface is what stderr begins with (docs/wire.md).
func (in *inputs) preface() string {
	var b strings.Builder
	if len(in.missing) > 0 {
		b.WriteString("input files not available in this session: " + strings.Join(in.missing, ", ") + "\n")
	}
	for _, n := range in.notes {
		b.WriteString(n + "\n")
	}
	return b.String()
}
