package shell

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Scripts see their own directories and nothing of the host, by whatever way they
// look.
func TestHostIsOutOfReach(t *testing.T) {
	s := newSandbox(t, newInterpreter(t, Config{}))
	secret := filepath.Join(filepath.Dir(s.dir), "secret")
	if err := os.WriteFile(secret, []byte("SECRET\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(secret, filepath.Join(s.dir, "host-link")); err != nil {
		t.Fatal(err)
	}
	for name, script := range map[string]string{
		"cat":           `cat SECRET`,
		"redirect":      `cat < SECRET`,
		"read":          `read -r x < SECRET; echo "$x"`,
		"substitution":  `echo "$(< SECRET)"`,
		"source":        `. SECRET`,
		"run":           `SECRET`,
		"bash":          `bash SECRET`,
		"interpreter":   `printf '#!SECRET\n' > x; chmod +x x; ./x`,
		"mapfile":       `mapfile -t a < SECRET; echo "${a[@]}"`,
		"relative":      `cat ../../SECRET ../../../../../../SECRET; cd ../..; cat .SECRET`,
		"host link":     `cat host-link; cat ./host-link; cp host-link copy; cat copy; tar cf - -h host-link | tar xOf -`,
		"own link":      `ln -s SECRET x; cat x; ln -s ../secret y; cat y; ln -s ../../../../../../../../SECRET z; cat z`,
		"hard link":     `ln SECRET x; cat x; ln host-link h; cat h`,
		"copy":          `cp SECRET x; mv SECRET y; cat x y`,
		"grep":          `grep . SECRET; grep -r SECRET / 2> /dev/null`,
		"sed":           `sed p SECRET; sed -n 'r SECRET' <<< x; sed 'w SECRET' <<< x`,
		"awk":           `awk 1 SECRET; awk 'BEGIN { while ((getline l < "SECRET") > 0) print l }'; awk 'BEGIN { print "x" > "SECRET" }'`,
		"awk runs":      `awk 'BEGIN { system("cat SECRET") }'; awk 'BEGIN { "cat SECRET" | getline x; print x }'`,
		"jq":            `jq -R . SECRET; jq -n --rawfile x SECRET '$x'; jq -n 'import "SECRET" as x; x'; jq -n 'input_filename, env.PATH, $__loc__'`,
		"find":          `find / -name secret; find SECRET`,
		"test":          `[ -e SECRET ] && echo SECRET; [[ -f SECRET ]] && echo SECRET; test -x SECRET && echo SECRET`,
		"glob":          `echo DIR/* | grep secret; for f in DIR/*; do [ "$f" = SECRET ] && echo "$(basename "$f" | tr a-z A-Z)"; done`,
		"type":          `type -p SECRET && echo SECRET; command -v SECRET && echo "found: SECRET"`,
		"path":          `PATH=DIR; type -p secret && echo SECRET; command -v secret && echo SECRET; hash secret 2>/dev/null; secret`,
		"cd":            `cd DIR && echo SECRET`,
		"pwd":           `PWD=DIR; pwd -P`,
		"archive":       `tar cf - SECRET | tar xOf -; zip x.zip SECRET; unzip -p x.zip`,
		"compress":      `gzip -c SECRET | gunzip; base64 SECRET | base64 -d; xxd -p SECRET | xxd -r -p`,
		"diff":          `diff SECRET /dev/null; cmp SECRET /dev/null; comm SECRET /dev/null; paste SECRET; join SECRET SECRET`,
		"sort":          `sort SECRET; uniq SECRET; head SECRET; tail SECRET; wc SECRET; cut -c1- SECRET; tac SECRET; nl SECRET; od -c SECRET`,
		"dd":            `dd if=SECRET; split SECRET; sha256sum SECRET; file SECRET; stat SECRET; strings SECRET`,
		"xargs":         `echo SECRET | xargs cat; xargs -a SECRET echo`,
		"date":          `date -f SECRET; date -r SECRET`,
		"pipes":         `cat /proc/self/fd/6/../../../../SECRET; cat /proc/self/fd/6/sh-interp-1/../../../../../SECRET; ls /proc/self/fd/6/`,
		"descriptors":   `for i in 0 1 2 3 4 5 6 7 8 9; do cat /proc/self/fd/$i/SECRET /dev/fd/$i/SECRET; done < /dev/null`,
		"processes":     `cat /proc/self/environ /proc/self/maps /proc/$PPID/environ /proc/1/cmdline | tr -d '\0'`,
		"users":         `cat /etc/passwd /etc/shadow /etc/hostname; echo ~nosuchuser`,
		"environment":   `env | grep -v -e '^HOME=/mnt/data$' -e '^PWD=/mnt/data$' -e '^TMPDIR=/tmp$' -e '^LANG=' -e '^PATH=' -e '^SHLVL=' -e '^_=' | sed 's/^/SECRET /'`,
		"process subst": `cat <(cat SECRET)`,
		"temporary":     `mktemp -p DIR && echo SECRET`,
	} {
		t.Run(name, func(t *testing.T) {
			script = strings.ReplaceAll(strings.ReplaceAll(script, "SECRET", secret), "DIR", filepath.Dir(secret))
			o := s.script(script)
			if o.Err != nil || strings.Contains(o.stdout, "SECRET") || strings.Contains(o.stderr, "SECRET") {
				t.Errorf("%+v\n%s\n%s", o.Result, o.stdout, o.stderr)
			}
			if out := strings.ReplaceAll(o.stdout, secret+"\n", ""); name != "process subst" && strings.Contains(out, "found:") || strings.Contains(out, "root:") {
				t.Errorf("stdout %q", o.stdout)
			}
			if b, err := os.ReadFile(secret); err != nil || string(b) != "SECRET\n" {
				t.Fatalf("the host's file was changed: %q, %v", b, err)
			}
		})
	}
	// ~name is not looked up among the users of the host.
	s.expect(s.script(`echo ~root ~daemon`), 0, "~root ~daemon\n", "")
}

// Scripts write where they may.
func TestWritesOutside(t *testing.T) {
	s := newSandbox(t, newInterpreter(t, Config{}))
	outside := t.TempDir()
	s.file("evil.tar", evilTar(t, filepath.Base(outside)))
	s.file("evil.zip", evilZip(t))
	for _, script := range []string{
		`echo x > OUT/f`, `touch OUT/f`, `mkdir OUT/d`, `cp /dev/null OUT/f`, `tee OUT/f < /dev/null`, `ln -s /tmp OUT/l`,
		`echo x > /run/caisson/f`, `echo x > /run/caisson/main.sh`, `rm /run/caisson/main.sh`, `echo x > /usr/bin/f`, `echo x > /f`, `rm -rf /usr /mnt`,
		`echo x > /dev/f`, `mkdir /tmp/../x`, `mv /run/caisson/main.sh /tmp/x`, `chmod 777 /run/caisson/main.sh`, `truncate -s 0 /run/caisson/main.sh`,
		`tar xf evil.tar`, `unzip evil.zip`,
	} {
		o := s.script(strings.ReplaceAll(script, "OUT", outside))
		if o.Code == 0 || o.Err != nil {
			t.Errorf("%s: %+v, %q", script, o.Result, o.stderr)
		}
		if list, err := os.ReadDir(outside); err != nil || len(list) > 0 {
			t.Fatalf("%s: %v, %v", script, list, err)
		}
	}
}

// evilTar has members that lead out of the directory, each in a way of its own.
func evilTar(t *testing.T, outside string) string {
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, h := range []tar.Header{
		{Name: "link", Typeflag: tar.TypeSymlink, Linkname: "../" + outside},
		{Name: "link/through", Typeflag: tar.TypeReg},
		{Name: "absolute", Typeflag: tar.TypeSymlink, Linkname: "/etc"},
		{Name: "../up", Typeflag: tar.TypeReg},
	} {
		h.Mode = 0o644
		if err := w.WriteHeader(&h); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func evilZip(t *testing.T) string {
	var b bytes.Buffer
	w := zip.NewWriter(&b)
	for _, name := range []string{"../up", "a/../../up"} {
		if _, err := w.Create(name); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// There is no network, by any name.
func TestNoNetwork(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			t.Error("a script has connected")
			_ = c.Close()
		}
	}()
	port := l.Addr().(*net.TCPAddr).Port
	s := newSandbox(t, newInterpreter(t, Config{}))
	o := s.script(fmt.Sprintf(`echo x > /dev/tcp/127.0.0.1/%[1]d; cat < /dev/tcp/127.0.0.1/%[1]d; echo x > /dev/udp/127.0.0.1/%[1]d; curl http://127.0.0.1:%[1]d; wget http://127.0.0.1:%[1]d; nc 127.0.0.1 %[1]d; exit 5`, port))
	if o.Code != 5 || o.stdout != "" || !strings.Contains(o.stderr, "bash: curl: command not found\n") {
		t.Errorf("%+v\n%s\n%s", o.Result, o.stdout, o.stderr)
	}
}

// However a script asks for the number of a process, it hears none of the host's.
func TestNoNumbersOfTheHost(t *testing.T) {
	s := newSandbox(t, newInterpreter(t, Config{}))
	s.expect(s.script(`x=PPID y='$' z=BASHPID
echo $$ $PPID $BASHPID ${PPID} $((PPID)) $((x)) ${!x} ${!y} ${!z} "$UID $EUID"
eval 'echo $PPID ${!x}'
(echo $$ $BASHPID $(echo $PPID))
declare -n r=PPID; echo $r
bash -c 'echo $$ $PPID'
printf '%s\n' ${PPID@Q} ${PPID:-none} ${PPID:0:9}`), 0,
		"0 0 0 0 0 0 0 0 0 1000 1000\n0 0\n0 0 0\n0\n0 0\n0\n0\n0\n", "")
}
