package clang

import (
	"crypto/rand"
	"io"
	"io/fs"
	"time"
)

// devicesDir is where programs find devices.
const devicesDir = "/dev"

// devices is the directory of devices: the few that programs read.
type devices struct{}

// readers are the devices by name.
var readers = map[string]io.Reader{
	"urandom": rand.Reader, "random": rand.Reader, "zero": zeros{}, "null": nothing{},
}

// Open implements fs.FS.
func (devices) Open(name string) (fs.File, error) {
	if name == "." {
		return device{name: name, mode: fs.ModeDir | 0o555}, nil
	}
	r, ok := readers[name]
	if !ok {
		return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
	}
	return device{name, fs.ModeDevice | fs.ModeCharDevice | 0o444, r}, nil
}

// device is an open device and what there is to know of it.
type device struct {
	name   string
	mode   fs.FileMode
	reader io.Reader
}

func (d device) Stat() (fs.FileInfo, error) { return d, nil }
func (d device) Close() error               { return nil }
func (d device) Name() string               { return d.name }
func (d device) Size() int64                { return 0 }
func (d device) Mode() fs.FileMode          { return d.mode }
func (d device) ModTime() time.Time         { return time.Unix(0, 0) }
func (d device) IsDir() bool                { return d.mode.IsDir() }
func (d device) Sys() any                   { return nil }

func (d device) Read(b []byte) (int, error) {
	if d.reader == nil {
		return 0, fs.ErrInvalid
	}
	return d.reader.Read(b)
}

type zeros struct{}

func (zeros) Read(b []byte) (int, error) {
	clear(b)
	return len(b), nil
}

type nothing struct{}

func (nothing) Read([]byte) (int, error) { return 0, io.EOF }
