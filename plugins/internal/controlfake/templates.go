package controlfake

import (
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/caisson-run/caisson/plugins/internal/envdfake"
)

// template is one, with its newest build.
type template struct {
	id     string
	names  []string
	build  string
	status string // of the build: waiting, building, ready, error
	reason string
	builds int
	tagged bool // the build has the tag "default"
	ready  time.Time
	image  string
}

// snapshot is a kept state of a sandbox.
type snapshot struct {
	id, name, sandbox, dir string
	image                  *envdfake.Machine
	created                time.Time
}

// buildTime is how long building takes, by the clock that Advance moves.
const buildTime = time.Minute

// nameForm is the rule for names of templates and snapshots, with an optional tag.
var nameForm = regexp.MustCompile(`^[a-z0-9_-]{1,128}(:[a-z0-9_.-]+)?$`)

func bare(name string) string {
	name, _, _ = strings.Cut(name[strings.LastIndex(name, "/")+1:], ":")
	return name
}

// settle ends builds that are due. An image called broken never works.
func (s *Server) settle() {
	for _, t := range s.templates {
		if t.status == "building" && !s.now().Before(t.ready) {
			t.status = "ready"
			if strings.Contains(t.image, "broken") {
				t.status, t.reason = "error", "image not found: "+t.image
			}
		}
	}
}

func (s *Server) template(id string) *template {
	for _, t := range s.templates {
		if t.id == id || slices.Contains(t.names, bare(id)) {
			return t
		}
	}
	return nil
}

// findTemplate returns what a new sandbox starts from: a template's id, and for a
// snapshot its image too.
func (s *Server) findTemplate(ref string) (string, *envdfake.Machine) {
	s.settle()
	for _, x := range s.snapshots {
		if x.id == ref {
			return x.id, x.image
		}
	}
	if t := s.template(ref); t != nil && t.status == "ready" && t.tagged {
		return t.id, nil
	}
	return "", nil
}

// inUse reports whether a sandbox started from a template or snapshot.
func (s *Server) inUse(id string) bool {
	for _, b := range s.boxes {
		if b.template == id {
			return true
		}
	}
	return false
}

// AddTemplate puts one there, of a status and with or without the default tag.
func (s *Server) AddTemplate(name, status, reason string, tagged bool) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	t := &template{id: s.newID("tpl"), names: []string{name}, build: newUUID(), status: status, reason: reason, builds: 1, tagged: tagged, ready: s.now().Add(time.Hour)}
	s.templates = append(s.templates, t)
	return t.id
}

// TemplateNames returns the names of all templates.
func (s *Server) TemplateNames() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []string
	for _, t := range s.templates {
		out = append(out, t.names...)
	}
	slices.Sort(out)
	return out
}

func (s *Server) listTemplates(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if strings.HasPrefix(r.URL.Path, "/v2/") && (s.quirks.NoTemplateV2 || s.o.Provider == Cube) {
		s.noRoute(w)
		return
	}
	s.settle()
	var out []map[string]any
	for _, t := range s.templates {
		if s.o.Provider == Cube {
			status := map[string]string{"ready": "READY", "error": "FAILED", "building": "RUNNING"}[t.status]
			out = append(out, map[string]any{
				"templateID": t.id, "public": false, "status": status, "lastError": t.reason, "names": t.names, "aliases": []string{},
			})
			continue
		}
		build := t.build
		if !t.tagged {
			build = "00000000-0000-0000-0000-000000000000"
		}
		var names []string
		for _, n := range t.names {
			names = append(names, "team/"+n)
		}
		out = append(out, map[string]any{
			"templateID": t.id, "buildID": build, "names": names, "aliases": t.names, "buildCount": t.builds, "buildStatus": t.status,
			"cpuCount": 2, "memoryMB": 512, "public": false,
		})
	}
	if strings.HasPrefix(r.URL.Path, "/v2/") {
		page(s, w, r.URL.Query(), out, 100)
		return
	}
	reply(w, http.StatusOK, append([]map[string]any{}, out...))
}

func (s *Server) getTemplate(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.settle()
	for _, t := range s.templates {
		if t.id == r.PathValue("id") { // a name is not found
			reply(w, http.StatusOK, map[string]any{"templateID": t.id, "names": t.names, "builds": []any{}})
			return
		}
	}
	s.refuse(w, http.StatusNotFound, "template '%s' not found", r.PathValue("id"))
}

func (s *Server) alias(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, t := range s.templates {
		if slices.Contains(t.names, bare(r.PathValue("name"))) {
			reply(w, http.StatusOK, map[string]any{"templateID": t.id, "public": false})
			return
		}
	}
	s.refuse(w, http.StatusNotFound, "alias '%s' not found", r.PathValue("name"))
}

// newTemplate is E2B's POST /v3/templates: a name that exists is the same template.
func (s *Server) newTemplate(w http.ResponseWriter, r *http.Request) {
	var c struct {
		Name     string   `json:"name"`
		Tags     []string `json:"tags"`
		CPUCount int      `json:"cpuCount"`
		MemoryMB int      `json:"memoryMB"`
	}
	if !s.decode(w, r, &c) {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if !nameForm.MatchString(c.Name) || c.MemoryMB != 0 && c.MemoryMB < 128 {
		s.violation("template name %q, memory %d", c.Name, c.MemoryMB)
		s.refuse(w, http.StatusBadRequest, "validation error: name")
		return
	}
	name, tag, _ := strings.Cut(c.Name, ":")
	t := s.template(name)
	if t == nil {
		t = &template{id: s.newID("tpl"), names: []string{name}}
		s.templates = append(s.templates, t)
	}
	t.build, t.status, t.reason = newUUID(), "waiting", ""
	t.builds++
	t.tagged = tag == "" || tag == "default"
	reply(w, http.StatusAccepted, map[string]any{"templateID": t.id, "buildID": t.build, "public": false, "names": t.names, "tags": []string{tag}, "aliases": t.names})
}

func (s *Server) startBuild(w http.ResponseWriter, r *http.Request) {
	var c struct {
		FromImage         string `json:"fromImage"`
		FromTemplate      string `json:"fromTemplate"`
		FromImageRegistry *struct {
			Type     string `json:"type"`
			Username string `json:"username"`
			Password string `json:"password"`
		} `json:"fromImageRegistry"`
		Force bool `json:"force"`
		Steps []struct {
			Type string   `json:"type"`
			Args []string `json:"args"`
		} `json:"steps"`
		StartCmd string `json:"startCmd"`
		ReadyCmd string `json:"readyCmd"`
	}
	if !s.decode(w, r, &c) {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	t := s.template(r.PathValue("id"))
	switch {
	case t == nil || t.build != r.PathValue("build"):
		s.refuse(w, http.StatusNotFound, "build '%s' not found", r.PathValue("build"))
	case t.status != "waiting":
		s.refuse(w, http.StatusBadRequest, "build is not in waiting state")
	case (c.FromImage == "") == (c.FromTemplate == ""):
		s.violation("a build from both or neither of an image and a template")
		s.refuse(w, http.StatusBadRequest, "validation error: fromImage")
	default:
		t.status, t.image, t.ready = "building", c.FromImage, s.now().Add(buildTime)
		w.WriteHeader(http.StatusAccepted)
	}
}

func (s *Server) buildStatus(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.settle()
	t := s.template(r.PathValue("id"))
	if t == nil || t.build != r.PathValue("build") {
		s.refuse(w, http.StatusBadRequest, "Build '%s' not found", r.PathValue("build"))
		return
	}
	out := map[string]any{"templateID": t.id, "buildID": t.build, "status": t.status, "logs": []string{}, "logEntries": []any{}}
	if t.reason != "" {
		out["reason"] = map[string]any{"message": t.reason}
	}
	reply(w, http.StatusOK, out)
}

// cubeTemplate is Cube's POST /templates and POST /templates/{id}.
func (s *Server) cubeTemplate(w http.ResponseWriter, r *http.Request) {
	var c struct {
		Image             string   `json:"image"`
		Name              string   `json:"name"`
		WritableLayerSize string   `json:"writableLayerSize"`
		ExposedPorts      []int    `json:"exposedPorts"`
		ProbePort         int      `json:"probePort"`
		ProbePath         string   `json:"probePath"`
		CPU               int      `json:"cpu"`
		Memory            int      `json:"memory"`
		RegistryUsername  string   `json:"registryUsername"`
		RegistryPassword  string   `json:"registryPassword"`
		Command           []string `json:"command"`
		DNS               []string `json:"dns"`
	}
	if !s.decode(w, r, &c) {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.settle()
	var t *template
	if id := r.PathValue("id"); id != "" {
		switch t = s.template(id); {
		case t == nil:
			s.refuse(w, http.StatusNotFound, "template %s not found", id)
			return
		case t.status == "building":
			s.refuse(w, http.StatusConflict, "template %s has an active operation", id)
			return
		}
	} else {
		t = &template{id: s.newID("tpl-"), names: []string{bare(c.Name)}}
		s.templates = append(s.templates, t)
	}
	if c.Image == "" || c.ProbePort != 49983 || !slices.Contains(c.ExposedPorts, 49983) {
		s.violation("a template without an image or the daemon's port")
	}
	t.build, t.status, t.reason, t.image, t.tagged = newUUID(), "building", "", c.Image, true
	t.ready = s.now().Add(buildTime)
	reply(w, http.StatusAccepted, map[string]any{"jobID": t.build, "templateID": t.id, "status": "PENDING", "phase": "", "progress": 0})
}

// deleteTemplate deletes a template or a snapshot.
func (s *Server) deleteTemplate(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	id := r.PathValue("id")
	refused := http.StatusBadRequest
	if s.o.Provider == Cube {
		refused = http.StatusConflict
	}
	for i, x := range s.snapshots {
		if x.id == id {
			// The kit goes on with a sandbox of a snapshot that is deleted, as one may
			// with those that keep a copy of their own.
			if err := errors.Join(s.end(x.image), os.RemoveAll(filepath.Join(s.o.Dir, x.dir))); err != nil {
				s.violation("end of a snapshot: %v", err)
			}
			s.snapshots = slices.Delete(s.snapshots, i, i+1)
			w.WriteHeader(http.StatusNoContent)
			return
		}
	}
	t := s.template(id)
	switch {
	case t == nil:
		s.refuse(w, http.StatusNotFound, "template '%s' not found", id)
	case s.inUse(t.id):
		s.refuse(w, refused, "cannot delete template '%s': sandboxes use it", id)
	default:
		s.templates = slices.DeleteFunc(s.templates, func(x *template) bool { return x == t })
		w.WriteHeader(http.StatusNoContent)
	}
}

func (s *Server) takeSnapshot(w http.ResponseWriter, r *http.Request) {
	var c struct {
		Name string `json:"name"`
	}
	if !s.decode(w, r, &c) {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	b := s.find(w, r)
	switch {
	case b == nil:
		return
	case b.state != "running":
		s.refuse(w, http.StatusNotFound, "sandbox \"%s\" is not running", b.id)
		return
	case c.Name != "" && !nameForm.MatchString(c.Name):
		s.violation("snapshot name %q", c.Name)
		s.refuse(w, http.StatusBadRequest, "invalid name")
		return
	}
	dir := s.newID("snap-")
	image, err := s.machine(dir, envdfake.Options{}, b.machine)
	if err != nil {
		s.violation("snapshot: %v", err)
		s.refuse(w, http.StatusInternalServerError, "could not snapshot")
		return
	}
	x := &snapshot{id: "team/" + c.Name + ":default", name: c.Name, sandbox: b.id, dir: dir, image: image, created: s.now()}
	if s.o.Provider == Cube || c.Name == "" {
		x.id = dir
	}
	s.snapshots = append(s.snapshots, x)
	reply(w, http.StatusCreated, map[string]any{"snapshotID": x.id, "names": []string{x.name}})
}

func (s *Server) listSnapshots(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []map[string]any
	for _, x := range s.snapshots {
		if of := r.URL.Query().Get("sandboxID"); of != "" && of != x.sandbox {
			continue
		}
		item := map[string]any{"snapshotID": x.id, "names": []string{x.name}}
		if s.o.Provider == Cube {
			item["createdAt"], item["status"] = x.created.UTC(), "READY"
		}
		out = append(out, item)
	}
	page(s, w, r.URL.Query(), out, 100)
}
