package settings

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"
)

// Endpoint is where an engine is.
type Endpoint struct {
	// Unix is the path of a socket on this machine; otherwise TCP is HOST:PORT,
	// spoken to with the client certificate in CA, Cert and Key, which are files.
	Unix          string
	TCP           string
	CA, Cert, Key string
}

// Local reports whether the engine shares this machine's file system.
func (e Endpoint) Local() bool { return e.Unix != "" }

// defaultSocket is where an engine listens if nobody says otherwise.
const defaultSocket = "unix:///var/run/docker.sock"

var errHost = errors.New(`host: must be unix:///PATH, or tcp://HOST:PORT with tls_ca, tls_cert and tls_key`)

func (s Settings) checkHost() error {
	if s.Host == "" {
		if s.TLSCA != "" || s.TLSCert != "" || s.TLSKey != "" {
			return errors.New("host: is required with tls_ca, tls_cert and tls_key")
		}
		return nil
	}
	_, err := endpoint(s.Host, s.TLSCA, s.TLSCert, s.TLSKey)
	return err
}

// Endpoint finds the engine. A config without a host means what the docker
// command would use: DOCKER_HOST with DOCKER_CERT_PATH, then DOCKER_CONTEXT or the
// current context of its configuration, then the socket of the system. What is
// found that way has to satisfy the same rules as a host that is written down.
func (s Settings) Endpoint(getenv func(string) string) (Endpoint, error) {
	if s.Host != "" {
		return endpoint(s.Host, s.TLSCA, s.TLSCert, s.TLSKey)
	}
	if host := getenv("DOCKER_HOST"); host != "" {
		var ca, cert, key string
		if dir := getenv("DOCKER_CERT_PATH"); dir != "" && !strings.HasPrefix(host, "unix:") {
			ca, cert, key = filepath.Join(dir, "ca.pem"), filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
		}
		e, err := endpoint(host, ca, cert, key)
		if err != nil {
			return Endpoint{}, fmt.Errorf("DOCKER_HOST: %w", err)
		}
		return e, nil
	}
	return contextEndpoint(getenv)
}

// endpoint applies the rules: a socket, or TCP that both sides prove themselves on.
// Without certificates whoever reaches the port is root on the engine's machine.
func endpoint(host, ca, cert, key string) (Endpoint, error) {
	u, err := url.Parse(host)
	if err != nil || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return Endpoint{}, errHost
	}
	files := 0
	for _, f := range []string{ca, cert, key} {
		if f != "" {
			files++
		}
		if f != "" && !filepath.IsAbs(f) {
			return Endpoint{}, errors.New("tls_ca, tls_cert, tls_key: must be absolute paths")
		}
	}
	switch u.Scheme {
	case "unix":
		if u.Host != "" || !filepath.IsAbs(u.Path) || filepath.Clean(u.Path) != u.Path || files > 0 {
			return Endpoint{}, errHost
		}
		return Endpoint{Unix: u.Path}, nil
	case "tcp":
		name, port, err := net.SplitHostPort(u.Host)
		if err != nil || name == "" || port == "" || u.Path != "" || files != 3 {
			return Endpoint{}, errHost
		}
		return Endpoint{TCP: u.Host, CA: ca, Cert: cert, Key: key}, nil
	}
	return Endpoint{}, errHost
}

// contextEndpoint reads the docker command's contexts
// (https://docs.docker.com/engine/manage-resources/contexts/): a file of the name's
// digest below its configuration says where the engine is, and a directory beside
// holds the certificates.
func contextEndpoint(getenv func(string) string) (Endpoint, error) {
	dir := getenv("DOCKER_CONFIG")
	if dir == "" && getenv("HOME") != "" {
		dir = filepath.Join(getenv("HOME"), ".docker")
	}
	name := getenv("DOCKER_CONTEXT")
	if name == "" && dir != "" {
		var file struct {
			CurrentContext string `json:"currentContext"`
		}
		if err := readJSON(filepath.Join(dir, "config.json"), &file); err != nil && !errors.Is(err, os.ErrNotExist) {
			return Endpoint{}, errors.New("the docker command's configuration cannot be read; set host")
		}
		name = file.CurrentContext
	}
	if name == "" || name == "default" {
		return endpoint(defaultSocket, "", "", "")
	}
	id := digest(name)
	var meta struct {
		Endpoints map[string]struct {
			Host          string
			SkipTLSVerify bool
		}
	}
	if err := readJSON(filepath.Join(dir, "contexts", "meta", id, "meta.json"), &meta); err != nil {
		return Endpoint{}, fmt.Errorf("docker context %q cannot be read; set host", name)
	}
	docker := meta.Endpoints["docker"]
	if docker.SkipTLSVerify {
		return Endpoint{}, fmt.Errorf("docker context %q does not verify its engine; set host", name)
	}
	var ca, cert, key string
	if strings.HasPrefix(docker.Host, "tcp:") {
		certs := filepath.Join(dir, "contexts", "tls", id, "docker")
		ca, cert, key = filepath.Join(certs, "ca.pem"), filepath.Join(certs, "cert.pem"), filepath.Join(certs, "key.pem")
	}
	e, err := endpoint(docker.Host, ca, cert, key)
	if err != nil {
		return Endpoint{}, fmt.Errorf("docker context %q: %w", name, err)
	}
	return e, nil
}

// digest names the directory of a context.
func digest(name string) string {
	sum := sha256.Sum256([]byte(name))
	return hex.EncodeToString(sum[:])
}

func readJSON(path string, into any) error {
	b, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	return json.Unmarshal(b, into)
}
