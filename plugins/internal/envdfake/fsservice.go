package envdfake

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/user"
	"path"
	"path/filepath"
	"strconv"
	"syscall"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/caisson-run/caisson/plugins/internal/envd/envdpb/filesystempb"
)

// filesystemService is the daemon's filesystem.Filesystem.
type filesystemService struct{ m *Machine }

// info describes a path, which leads here on this machine, as the daemon does: a link
// by its target.
func (m *Machine) info(p string) (*filesystempb.EntryInfo, error) {
	real, err := m.real(p, false)
	if err != nil {
		return nil, err
	}
	i, err := os.Lstat(real)
	if err != nil {
		return nil, err
	}
	e := &filesystempb.EntryInfo{
		Name: path.Base(p), Path: p, Size: i.Size(), Mode: uint32(i.Mode().Perm()), Permissions: i.Mode().String(),
		ModifiedTime: timestamppb.New(i.ModTime()), Type: fileType(i),
	}
	if st, ok := i.Sys().(*syscall.Stat_t); ok {
		e.Owner, e.Group = owner(st.Uid), strconv.Itoa(int(st.Gid))
	}
	if i.Mode()&fs.ModeSymlink != 0 {
		target := p // where it ends nowhere
		e.Type = filesystempb.FileType_FILE_TYPE_UNSPECIFIED
		if logical, err := m.resolve(p, true); err == nil {
			if i, err := os.Stat(m.Path(logical)); err == nil {
				target, e.Type = logical, fileType(i)
			}
		}
		e.SymlinkTarget = &target
	}
	return e, nil
}

func fileType(i fs.FileInfo) filesystempb.FileType {
	switch {
	case i.Mode().IsRegular():
		return filesystempb.FileType_FILE_TYPE_FILE
	case i.IsDir():
		return filesystempb.FileType_FILE_TYPE_DIRECTORY
	}
	return filesystempb.FileType_FILE_TYPE_UNSPECIFIED
}

func owner(uid uint32) string {
	if u, err := user.LookupId(strconv.Itoa(int(uid))); err == nil {
		return u.Username
	}
	return strconv.Itoa(int(uid))
}

// fsError gives an error the code that the daemon does.
func fsError(err error, p string) error {
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return failf(connect.CodeNotFound, "file not found: %s", p)
	case errors.Is(err, syscall.ELOOP):
		return failf(connect.CodeFailedPrecondition, "too many links: %s", p)
	case errors.Is(err, fs.ErrExist):
		return failf(connect.CodeAlreadyExists, "%s exists", p)
	}
	return failf(connect.CodeInternal, "%s: %v", p, err)
}

func (s filesystemService) path(p string, r connect.AnyRequest) string {
	return absolute(p, s.m.userOf(r.Header()))
}

func (s filesystemService) Stat(_ context.Context, r *connect.Request[filesystempb.StatRequest]) (*connect.Response[filesystempb.StatResponse], error) {
	p := s.path(r.Msg.GetPath(), r)
	e, err := s.m.info(p)
	if err != nil {
		return nil, fsError(err, p)
	}
	return connect.NewResponse(&filesystempb.StatResponse{Entry: e}), nil
}

func (s filesystemService) MakeDir(_ context.Context, r *connect.Request[filesystempb.MakeDirRequest]) (*connect.Response[filesystempb.MakeDirResponse], error) {
	p := s.path(r.Msg.GetPath(), r)
	real, err := s.m.real(p, true)
	if err != nil {
		return nil, fsError(err, p)
	}
	if i, err := os.Stat(real); err == nil {
		if i.IsDir() {
			return nil, failf(connect.CodeAlreadyExists, "directory already exists: %s", p)
		}
		return nil, failf(connect.CodeInvalidArgument, "path already exists but it is not a directory: %s", p)
	}
	if !s.m.writable(p) {
		return nil, failf(connect.CodeInternal, "read-only")
	}
	if err := os.MkdirAll(real, 0o755); err != nil {
		return nil, failf(connect.CodeInternal, "%s: %v", p, err)
	}
	e, err := s.m.info(p)
	if err != nil {
		return nil, fsError(err, p)
	}
	return connect.NewResponse(&filesystempb.MakeDirResponse{Entry: e}), nil
}

func (s filesystemService) Move(_ context.Context, r *connect.Request[filesystempb.MoveRequest]) (*connect.Response[filesystempb.MoveResponse], error) {
	from, to := s.path(r.Msg.GetSource(), r), s.path(r.Msg.GetDestination(), r)
	realFrom, err1 := s.m.real(from, false)
	realTo, err2 := s.m.real(to, false)
	if err := errors.Join(err1, err2); err != nil {
		return nil, fsError(err, from)
	}
	if _, err := os.Lstat(realFrom); err != nil {
		return nil, fsError(err, from)
	}
	if !s.m.writable(from) || !s.m.writable(to) {
		return nil, failf(connect.CodeInternal, "read-only")
	}
	if err := os.MkdirAll(filepath.Dir(realTo), 0o755); err != nil {
		return nil, failf(connect.CodeInternal, "%v", err)
	}
	if err := os.Rename(realFrom, realTo); err != nil {
		return nil, failf(connect.CodeInternal, "%v", err)
	}
	e, err := s.m.info(to)
	if err != nil {
		return nil, fsError(err, to)
	}
	return connect.NewResponse(&filesystempb.MoveResponse{Entry: e}), nil
}

func (s filesystemService) ListDir(_ context.Context, r *connect.Request[filesystempb.ListDirRequest]) (*connect.Response[filesystempb.ListDirResponse], error) {
	p := s.path(r.Msg.GetPath(), r)
	real, err := s.m.real(p, true)
	if err != nil {
		return nil, fsError(err, p)
	}
	i, err := os.Stat(real)
	switch {
	case err != nil:
		return nil, fsError(err, p)
	case !i.IsDir():
		return nil, failf(connect.CodeInvalidArgument, "path is not a directory: %s", p)
	}
	res := new(filesystempb.ListDirResponse)
	if err := s.list(res, p, real, max(r.Msg.GetDepth(), 1)); err != nil {
		return nil, fsError(err, p)
	}
	return connect.NewResponse(res), nil
}

// list keeps the prefix of a link that was asked for, and descends into none below.
func (s filesystemService) list(res *filesystempb.ListDirResponse, p, real string, depth uint32) error {
	entries, err := os.ReadDir(real)
	if err != nil {
		return err
	}
	for _, d := range entries {
		q := path.Join(p, d.Name())
		e, err := s.m.info(q)
		if err != nil {
			continue // it went meanwhile
		}
		res.Entries = append(res.Entries, e)
		if d.IsDir() && depth > 1 {
			if err := s.list(res, q, filepath.Join(real, d.Name()), depth-1); err != nil {
				return err
			}
		}
	}
	return nil
}

func (s filesystemService) Remove(_ context.Context, r *connect.Request[filesystempb.RemoveRequest]) (*connect.Response[filesystempb.RemoveResponse], error) {
	p := s.path(r.Msg.GetPath(), r)
	real, err := s.m.real(p, false)
	if err == nil && !s.m.writable(p) {
		err = fmt.Errorf("read-only")
	}
	if err == nil {
		err = os.RemoveAll(real)
	}
	if err != nil {
		return nil, failf(connect.CodeInternal, "error removing file or directory: %v", err)
	}
	return connect.NewResponse(&filesystempb.RemoveResponse{}), nil
}
