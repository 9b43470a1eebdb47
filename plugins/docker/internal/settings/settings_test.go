package settings

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestParse(t *testing.T) {
	for name, c := range map[string]struct{ raw, want string }{
		"nothing":             {``, ErrOff.Error()},
		"not enabled":         {`{"image":"x"}`, ErrOff.Error()},
		"enabled":             {`{"enabled":true}`, ""},
		"everything":          {`{"enabled":true,"host":"tcp://h:2376","tls_ca":"/a","tls_cert":"/b","tls_key":"/c","image":"r.example:5000/a/b@sha256:0","images":{"sci":"a:b"},"pull":"never","user":"1:2","memory_mib":64,"cpus":0.5,"pids":64,"disk_mib":1,"network":"bridge","runtime":"runsc","languages":"py=cpython js=node@20","agent":"off","pool":0,"volumes":true,"max_sandboxes":1,"max_snapshots":1,"idle_seconds":1,"ttl_seconds":1}`, ""},
		"unknown key":         {`{"enabled":true,"privileged":true}`, "privileged"},
		"two values":          {`{"enabled":true}{}`, "more than one"},
		"user by name":        {`{"enabled":true,"user":"root"}`, "user"},
		"root":                {`{"enabled":true,"user":"0:0"}`, "user"},
		"root's group":        {`{"enabled":true,"user":"1000:0"}`, "user"},
		"host network":        {`{"enabled":true,"network":"host"}`, "network"},
		"container's network": {`{"enabled":true,"network":"container:x"}`, "network"},
		"named network":       {`{"enabled":true,"network":"db"}`, "network"},
		"endless processes":   {`{"enabled":true,"pids":-1}`, "pids"},
		"too few processes":   {`{"enabled":true,"pids":63}`, "pids"},
		"no memory":           {`{"enabled":true,"memory_mib":0}`, "memory_mib"},
		"no processor":        {`{"enabled":true,"cpus":0}`, "cpus"},
		"pool":                {`{"enabled":true,"pool":1000}`, "pool"},
		"option as image":     {`{"enabled":true,"image":"--privileged"}`, "image"},
		"listed image":        {`{"enabled":true,"images":{"x":"A B"}}`, "images"},
		"runtime":             {`{"enabled":true,"runtime":"/bin/sh"}`, "runtime"},
		"languages":           {`{"enabled":true,"languages":"py"}`, "languages"},
		"open TCP":            {`{"enabled":true,"host":"tcp://h:2375"}`, "host"},
		"TCP half proved":     {`{"enabled":true,"host":"tcp://h:2376","tls_ca":"/a"}`, "host"},
		"relative socket":     {`{"enabled":true,"host":"unix://run/docker.sock"}`, "host"},
		"http":                {`{"enabled":true,"host":"http://h:2375"}`, "host"},
		"ssh":                 {`{"enabled":true,"host":"ssh://h"}`, "host"},
		"pipe":                {`{"enabled":true,"host":"npipe:////./pipe/docker"}`, "host"},
		"TCP with a path":     {`{"enabled":true,"host":"tcp://h:1/x","tls_ca":"/a","tls_cert":"/b","tls_key":"/c"}`, "host"},
		"TCP with a user":     {`{"enabled":true,"host":"tcp://u:p@h:1","tls_ca":"/a","tls_cert":"/b","tls_key":"/c"}`, "host"},
		"socket with keys":    {`{"enabled":true,"host":"unix:///s","tls_ca":"/a","tls_cert":"/b","tls_key":"/c"}`, "host"},
		"keys for nothing":    {`{"enabled":true,"tls_ca":"/a"}`, "host"},
		"relative key":        {`{"enabled":true,"host":"tcp://h:1","tls_ca":"a","tls_cert":"/b","tls_key":"/c"}`, "absolute"},
	} {
		s, err := Parse([]byte(c.raw))
		switch {
		case c.want == "" && err != nil:
			t.Errorf("%s: %v", name, err)
		case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
			t.Errorf("%s: got %v, want an error with %q", name, err, c.want)
		case err != nil && s.Enabled:
			t.Errorf("%s: refused, and enabled all the same", name)
		}
	}
}

// TestEndpoint: a blank host is what the docker command would use, by the same rules.
func TestEndpoint(t *testing.T) {
	dir := t.TempDir()
	write := func(path, text string) {
		t.Helper()
		path = filepath.Join(dir, path)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("config.json", `{"currentContext":"work"}`)
	write("contexts/meta/"+digest("work")+"/meta.json", `{"Name":"work","Endpoints":{"docker":{"Host":"unix:///run/work.sock"}}}`)
	write("contexts/meta/"+digest("far")+"/meta.json", `{"Name":"far","Endpoints":{"docker":{"Host":"tcp://far:2376"}}}`)
	write("contexts/meta/"+digest("open")+"/meta.json", `{"Name":"open","Endpoints":{"docker":{"Host":"tcp://far:2376","SkipTLSVerify":true}}}`)
	write("contexts/meta/"+digest("login")+"/meta.json", `{"Name":"login","Endpoints":{"docker":{"Host":"ssh://far"}}}`)
	tls := filepath.Join(dir, "contexts", "tls", digest("far"), "docker")
	for name, c := range map[string]struct {
		env  map[string]string
		want Endpoint
		err  string
	}{
		"nothing":          {nil, Endpoint{Unix: "/var/run/docker.sock"}, ""},
		"variable":         {map[string]string{"DOCKER_HOST": "unix:///x.sock", "DOCKER_CERT_PATH": "/c", "DOCKER_CONFIG": dir}, Endpoint{Unix: "/x.sock"}, ""},
		"variable, proved": {map[string]string{"DOCKER_HOST": "tcp://h:1", "DOCKER_CERT_PATH": "/c"}, Endpoint{TCP: "h:1", CA: "/c/ca.pem", Cert: "/c/cert.pem", Key: "/c/key.pem"}, ""},
		"variable, open":   {map[string]string{"DOCKER_HOST": "tcp://h:2375"}, Endpoint{}, "DOCKER_HOST"},
		"current context":  {map[string]string{"DOCKER_CONFIG": dir}, Endpoint{Unix: "/run/work.sock"}, ""},
		"default context":  {map[string]string{"DOCKER_CONFIG": dir, "DOCKER_CONTEXT": "default"}, Endpoint{Unix: "/var/run/docker.sock"}, ""},
		"other context":    {map[string]string{"DOCKER_CONFIG": dir, "DOCKER_CONTEXT": "far"}, Endpoint{TCP: "far:2376", CA: tls + "/ca.pem", Cert: tls + "/cert.pem", Key: tls + "/key.pem"}, ""},
		"unproved context": {map[string]string{"DOCKER_CONFIG": dir, "DOCKER_CONTEXT": "open"}, Endpoint{}, "verify"},
		"ssh context":      {map[string]string{"DOCKER_CONFIG": dir, "DOCKER_CONTEXT": "login"}, Endpoint{}, "host"},
		"absent context":   {map[string]string{"DOCKER_CONFIG": dir, "DOCKER_CONTEXT": "none"}, Endpoint{}, "cannot be read"},
	} {
		got, err := Settings{}.Endpoint(func(k string) string { return c.env[k] })
		if got != c.want || (c.err == "") != (err == nil) || err != nil && !strings.Contains(err.Error(), c.err) {
			t.Errorf("%s: %+v, %v; want %+v, %q", name, got, err, c.want, c.err)
		}
		if err != nil && strings.Contains(err.Error(), dir) {
			t.Errorf("%s: the error names a path: %v", name, err)
		}
	}
}

func TestOffIsOff(t *testing.T) {
	if _, err := Parse([]byte(`{"enabled":false}`)); !errors.Is(err, ErrOff) {
		t.Errorf("got %v", err)
	}
}
