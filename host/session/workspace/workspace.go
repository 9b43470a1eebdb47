// Package workspace says where the files of one session are inside its sandbox,
// and which paths a caller may use for what. It looks at text only and touches
// nothing: that no link leads out of a root when a path is used is the backend's
// part of the contract (sdk/backend).
package workspace

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"path"

	"github.com/caisson-run/caisson/sdk/backend"
)

// ErrPath: a path is not one that may be used here. Errors that wrap it name the
// rule.
var ErrPath = errors.New("path is not allowed")

// Origin says where a layout's roots are.
type Origin string

const (
	// OriginSession layouts are those of a sandbox that one session owns.
	OriginSession Origin = "session"
	// OriginShared layouts are one session's part of a sandbox that several share.
	OriginShared Origin = "shared"
)

// Layout is the set of roots of one session. All are absolute and in their
// shortest form. The zero Layout, and one made by Failed, refuse every path: a
// program that cannot find out where files belong must not guess.
type Layout struct {
	Origin Origin
	// Root is the work tree. Relative paths start here.
	Root string
	// Input holds what the embedder attaches. Programs may read it; Files.Write
	// does not write to it.
	Input string
	// Output is where programs put what they hand over, unless they are told
	// another directory (OutputDir).
	Output string
	// Jobs, Skills and Git lie outside Root: cleaning the work tree drops neither
	// the logs of jobs, nor installed skills, nor its history.
	Jobs, Skills, Git string

	failed error
}

// Roots outside the work tree.
const (
	jobsRoot   = "/var/lib/caisson/jobs"
	skillsRoot = "/opt/caisson/skills"
	gitRoot    = "/var/lib/caisson/git"
)

// Session returns the layout of a sandbox that one session owns, with its work
// tree in backend.DataDir, which every backend keeps and searches for changes.
func Session() Layout { return at(OriginSession, backend.DataDir, gitRoot) }

// Under is Session with the work tree elsewhere, for images that have one of their
// own, such as /workspace. root is absolute, not "/", and neither contains nor lies
// in one of the roots that are outside the work tree.
func Under(root string) (Layout, error) {
	if err := backend.CheckPath(root); err != nil {
		return Layout{}, fmt.Errorf("%w: root: %w", ErrPath, err)
	}
	for _, r := range []string{jobsRoot, skillsRoot, gitRoot} {
		if backend.Within(root, r) || backend.Within(r, root) {
			return Layout{}, fmt.Errorf("%w: root %q overlaps %q", ErrPath, root, r)
		}
	}
	return at(OriginSession, root, gitRoot), nil
}

// Shared returns session's layout on a sandbox that several sessions share. Two
// sessions never share a directory, whatever their names; directories do not
// tell names.
func Shared(session string) (Layout, error) {
	if session == "" {
		return Layout{}, fmt.Errorf("%w: a shared sandbox has no directory for an empty session", ErrPath)
	}
	sum := sha256.Sum256([]byte(session))
	name := hex.EncodeToString(sum[:16])
	l := at(OriginShared, path.Join(backend.DataDir, "sessions", name), path.Join(gitRoot, name))
	l.Jobs = path.Join(jobsRoot, name)
	return l, nil
}

// Failed returns the layout of a session whose layout cannot be established now.
// It refuses every path with cause.
func Failed(cause error) Layout { return Layout{failed: cause} }

func at(o Origin, root, git string) Layout {
	return Layout{
		Origin: o, Root: root, Input: path.Join(root, "input"), Output: path.Join(root, "output"),
		Jobs: jobsRoot, Skills: skillsRoot, Git: git,
	}
}

// Err returns why the layout refuses every path, or nil.
func (l Layout) Err() error {
	switch {
	case l.failed != nil:
		return fmt.Errorf("%w: the workspace layout is not known: %w", ErrPath, l.failed)
	case l.Root == "":
		return fmt.Errorf("%w: there is no workspace layout", ErrPath)
	}
	return nil
}

// Resolve returns the absolute path of p, which is relative to Root or absolute,
// in its shortest form. It does not say that p may be used for anything.
func (l Layout) Resolve(p string) (string, error) {
	if err := l.Err(); err != nil {
		return "", err
	}
	if p == "" {
		return "", fmt.Errorf("%w: path is empty", ErrPath)
	}
	if err := checkText(p); err != nil {
		return "", err
	}
	if p[0] != '/' {
		p = l.Root + "/" + p
	}
	return check(path.Clean(p))
}

// Read resolves a path that may be read: Root, the roots outside it, and what is
// below them.
func (l Layout) Read(p string) (string, error) {
	abs, err := l.Resolve(p)
	if err != nil {
		return "", err
	}
	for _, root := range []string{l.Root, l.Jobs, l.Skills} {
		if backend.Within(root, abs) {
			return abs, nil
		}
	}
	return "", fmt.Errorf("%w: %q is not below %s", ErrPath, p, l.Root)
}

// Write resolves a path that programs and models may write: below Root, and not
// Input or below it.
func (l Layout) Write(p string) (string, error) {
	abs, err := l.below(l.Root, p)
	if err != nil {
		return "", err
	}
	if backend.Within(l.Input, abs) {
		return "", fmt.Errorf("%w: %q is in %s, which is read-only", ErrPath, p, l.Input)
	}
	return abs, nil
}

// WriteInput resolves a path for an attachment: below Input.
func (l Layout) WriteInput(p string) (string, error) { return l.below(l.Input, p) }

// Install resolves a path for an installation: below Skills. Never offer it to a
// model.
func (l Layout) Install(p string) (string, error) { return l.below(l.Skills, p) }

// OutputDir is the one gate for directories that are to be used in place of
// Output: below Root, not Root itself, since everything would be a result then,
// and not in Input. Empty means Output.
func (l Layout) OutputDir(dir string) (string, error) {
	if dir == "" {
		return l.Output, l.Err()
	}
	return l.Write(dir)
}

// below resolves p and wants it strictly below root.
func (l Layout) below(root, p string) (string, error) {
	abs, err := l.Resolve(p)
	if err != nil {
		return "", err
	}
	if abs == root || !backend.Within(root, abs) {
		return "", fmt.Errorf("%w: %q is not below %s", ErrPath, p, root)
	}
	return abs, nil
}
