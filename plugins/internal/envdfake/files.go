package envdfake

import (
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"mime"
	"net/http"
	"os"
	"path"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

func (m *Machine) metrics(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(map[string]any{
		"ts": time.Now().Unix(), "cpu_count": 2, "cpu_used_pct": 1.5,
		"mem_total": 512 << 20, "mem_used": 64 << 20, "mem_cache": 32 << 20, "mem_total_mib": 512, "mem_used_mib": 64,
		"disk_used": 1 << 30, "disk_total": 10 << 30,
	})
}

func (m *Machine) envs(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	env := m.opts.Env
	if env == nil {
		env = map[string]string{}
	}
	_ = json.NewEncoder(w).Encode(env)
}

// fileUser is the account that a request for files is about.
func (m *Machine) fileUser(r *http.Request) string {
	if user := r.URL.Query().Get("username"); user != "" {
		return user
	}
	return m.userOf(r.Header)
}

func (m *Machine) download(w http.ResponseWriter, r *http.Request) {
	p := absolute(r.URL.Query().Get("path"), m.fileUser(r))
	real, err := m.real(p, true)
	var i fs.FileInfo
	if err == nil {
		i, err = os.Stat(real)
	}
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ELOOP):
		fail(w, http.StatusNotFound, fmt.Sprintf("path '%s' does not exist", p))
		return
	case err != nil:
		fail(w, http.StatusInternalServerError, "error resolving path: "+err.Error())
		return
	case i.IsDir():
		fail(w, http.StatusBadRequest, fmt.Sprintf("path '%s' is a directory", p))
		return
	case !i.Mode().IsRegular():
		// The daemon would wait for whoever writes to a pipe.
		m.violation("GET /files of %s, which is no regular file", p)
		<-r.Context().Done()
		return
	}
	f, err := os.Open(real)
	if err != nil {
		fail(w, http.StatusInternalServerError, err.Error())
		return
	}
	defer f.Close()
	w.Header().Set("Content-Disposition", mime.FormatMediaType("inline", map[string]string{"filename": path.Base(p)}))
	if strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
		w.Header().Set("Content-Encoding", "gzip")
		_ = http.NewResponseController(w).Flush() // of a length that nobody knows yet
		z := gzip.NewWriter(w)
		_, _ = io.Copy(z, f)
		_ = z.Close()
		return
	}
	http.ServeContent(w, r, path.Base(p), i.ModTime(), f)
}

func (m *Machine) upload(w http.ResponseWriter, r *http.Request) {
	if r.Header.Get("Content-Encoding") == "gzip" {
		z, err := gzip.NewReader(r.Body)
		if err != nil {
			fail(w, http.StatusBadRequest, err.Error())
			return
		}
		r.Body = io.NopCloser(z)
	}
	target := r.URL.Query().Get("path")
	kind, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type"))
	var written []map[string]string
	var status int
	var err error
	switch {
	case kind == "multipart/form-data":
		written, status, err = m.parts(r, target)
	case kind == "application/octet-stream" && m.atLeast("0.5.7"):
		if target == "" {
			fail(w, http.StatusBadRequest, "path is required")
			return
		}
		var e map[string]string
		e, status, err = m.store(absolute(target, m.fileUser(r)), r.Body)
		written = append(written, e)
	default:
		fail(w, http.StatusBadRequest, "unsupported content type")
		return
	}
	if err != nil {
		fail(w, status, err.Error())
		return
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8") // so it is
	_ = json.NewEncoder(w).Encode(written)
}

func (m *Machine) parts(r *http.Request, target string) (written []map[string]string, status int, err error) {
	form, err := r.MultipartReader()
	if err != nil {
		return nil, http.StatusBadRequest, err
	}
	for {
		part, err := form.NextRawPart()
		if errors.Is(err, io.EOF) {
			return written, 0, nil
		}
		if err != nil {
			return written, http.StatusInternalServerError, err
		}
		if part.FormName() != "file" {
			m.violation("POST /files with the field %q", part.FormName())
			continue
		}
		to := target
		if to == "" {
			_, params, _ := mime.ParseMediaType(part.Header.Get("Content-Disposition"))
			to = params["filename"]
		} else if len(written) > 0 {
			return written, http.StatusBadRequest, errors.New("you cannot upload multiple files to the same path")
		}
		e, status, err := m.store(absolute(to, m.fileUser(r)), part)
		if err != nil {
			return written, status, err
		}
		written = append(written, e)
	}
}

// store writes in place, through links, and makes parents.
func (m *Machine) store(p string, content io.Reader) (map[string]string, int, error) {
	real, err := m.real(p, true)
	if err != nil || !m.writable(p) {
		return nil, http.StatusInternalServerError, fmt.Errorf("error resolving path: %v", err)
	}
	if i, err := os.Stat(real); err == nil && i.IsDir() {
		return nil, http.StatusBadRequest, fmt.Errorf("path is a directory: %s", p)
	}
	if err := os.MkdirAll(filepath.Dir(real), 0o755); err != nil {
		if errors.Is(err, syscall.ENOTDIR) {
			err = errors.New("path is a file")
		}
		return nil, http.StatusInternalServerError, fmt.Errorf("error ensuring directories: %w", err)
	}
	f, err := os.OpenFile(real, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o755)
	if err == nil {
		_, err = io.Copy(f, content)
		err = errors.Join(err, f.Close())
	}
	switch {
	case errors.Is(err, syscall.ENOSPC):
		return nil, http.StatusInsufficientStorage, errors.New("not enough disk space available")
	case err != nil:
		return nil, http.StatusInternalServerError, err
	}
	return map[string]string{"name": path.Base(p), "path": p, "type": "file"}, 0, nil
}
