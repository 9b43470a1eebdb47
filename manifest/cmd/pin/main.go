// Command pin installs a plugin as a host expects to find it: a directory with
// the artifact and a plugin.yaml that carries the artifact's digest.
//
//	pin -o DIR plugin.yaml ARTIFACT
//
// The artifact goes to the path that the manifest names. Both files are replaced
// by renaming, the manifest last, so that a reader sees either the old plugin,
// the new one, or a digest that does not match: never a half-written file.
// It trusts what it is given; it is a step of a build and not of an installation.
package main

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/caisson-run/caisson/manifest"
)

func main() {
	if err := run(os.Args[1:], os.Stderr); err != nil {
		if !errors.Is(err, flag.ErrHelp) {
			fmt.Fprintln(os.Stderr, "pin:", err)
		}
		os.Exit(2)
	}
}

func run(args []string, stderr io.Writer) error {
	flags := flag.NewFlagSet("pin", flag.ContinueOnError)
	flags.SetOutput(stderr)
	dir := flags.String("o", "", "plugin `directory` to write")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if *dir == "" || flags.NArg() != 2 {
		return errors.New("usage: pin -o DIR plugin.yaml ARTIFACT")
	}
	return install(*dir, flags.Arg(0), flags.Arg(1))
}

// install writes the plugin whose manifest and artifact are given into dir.
func install(dir, manifestFile, artifactFile string) error {
	source, err := os.ReadFile(manifestFile)
	if err != nil {
		return err
	}
	m, err := manifest.Parse(manifestFile, source)
	if err != nil {
		return err
	}
	artifact, err := os.ReadFile(artifactFile)
	if err != nil {
		return err
	}
	digest, err := manifest.Digest(bytes.NewReader(artifact))
	if err != nil {
		return err
	}
	pinned, err := manifest.Pin(source, digest)
	if err != nil {
		return fmt.Errorf("%s: %w", manifestFile, err)
	}
	var mode os.FileMode = 0o644
	if m.Runtime == manifest.RuntimeProcess {
		mode = 0o755
	}
	if err := replace(filepath.Join(dir, filepath.FromSlash(m.Path)), artifact, mode); err != nil {
		return err
	}
	return replace(filepath.Join(dir, manifest.FileName), pinned, 0o644)
}

// replace writes a file by renaming, so that a program that runs from the old
// one goes on, and nobody reads half of the new one.
func replace(path string, data []byte, mode os.FileMode) (err error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.Remove(f.Name()))
		}
	}()
	_, err = f.Write(data)
	err = errors.Join(err, f.Chmod(mode), f.Close())
	if err != nil {
		return err
	}
	return os.Rename(f.Name(), path)
}
