package interp

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

func TestJavaScriptEscapesAreRefused(t *testing.T) {
	s := newSandbox(t)
	secret := filepath.Dir(s.data) + "/secret"
	if err := os.WriteFile(secret, []byte("secret"), 0o644); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.Remove(secret) })
	if err := os.Symlink(secret, s.data+"/host-link"); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(filepath.Dir(s.data), s.data+"/host-dir"); err != nil {
		t.Fatal(err)
	}
	o := s.node(`
const fs = require('fs');
const attempt = (name, f) => { try { console.log(name, 'GOT', f()); } catch (e) { console.log(name, e.code ?? e); } };
attempt('dotdot', () => fs.readFileSync('../secret', 'utf8'));
attempt('absolute', () => fs.readFileSync('/etc/passwd', 'utf8'));
attempt('proc', () => fs.readFileSync('/proc/self/environ', 'utf8'));
attempt('host link', () => fs.readFileSync('host-link', 'utf8'));
attempt('host link stat', () => fs.statSync('host-link').size);
attempt('host dir', () => fs.readdirSync('host-dir'));
attempt('host dir file', () => fs.readFileSync('host-dir/secret', 'utf8'));
attempt('host dir write', () => fs.writeFileSync('host-dir/new', 'x'));
attempt('host link write', () => fs.writeFileSync('host-link', 'x'));
attempt('host link chmod', () => fs.chmodSync('host-link', 0o777));
attempt('symlink', () => fs.symlinkSync('../secret', 'x'));
attempt('absolute symlink', () => fs.symlinkSync('/etc/passwd', 'y'));
attempt('hard link', () => fs.linkSync('../secret', 'z'));
attempt('rename out', () => { fs.writeFileSync('f', ''); fs.renameSync('f', '../f'); });
attempt('rename over', () => { fs.renameSync('f', '/tmp/f'); });
attempt('entry', () => fs.writeFileSync('/run/caisson/main.js', ''));
attempt('entry dir', () => fs.mkdirSync('/run/caisson/new'));
attempt('root', () => fs.writeFileSync('/new', ''));
attempt('root dir', () => fs.mkdirSync('/new'));
attempt('nul', () => fs.readFileSync('a\0b'));
attempt('url', () => fs.readFileSync(new URL('file:///mnt/data/../../etc/passwd')));
attempt('require', () => require('../secret'));
attempt('require link', () => require('./host-link'));
attempt('chdir', () => process.chdir('/etc'));
fs.unlinkSync('f');
console.log(fs.readdirSync('.'));
`)
	if strings.Contains(o.stdout, "GOT") || strings.Contains(o.stdout, "root:") || o.Code != 0 {
		t.Errorf("an escape worked: %+v", o)
	}
	if !strings.HasSuffix(o.stdout, "[ 'host-dir', 'host-link' ]\n") {
		t.Errorf("something was left: %+v", o)
	}
	if b, err := os.ReadFile(secret); err != nil || string(b) != "secret" {
		t.Errorf("the secret is %q, %v", b, err)
	}
}

func TestJavaScriptDiskFull(t *testing.T) {
	s := newSandbox(t)
	p := s.program("node", "main.js", `
const fs = require('fs');
const attempt = (f) => { try { f(); } catch (e) { console.log(e.message); } };
attempt(() => fs.writeFileSync('a', Buffer.alloc(2_000_000)));
attempt(() => fs.truncateSync('a', 2 ** 40));
attempt(() => { const fd = fs.openSync('a', 'r+'); try { fs.writeSync(fd, 'x', 2 ** 40); } finally { fs.closeSync(fd); } });
for (let i = 0; i < 5; i++) attempt(() => fs.mkdirSync('d' + i));
for (let i = 0; i < 4; i++) attempt(() => fs.openSync('a'));
`)
	p.Data.Quota = newQuota(1_000_000, 4, 3)
	need(t, "node")
	s.expect(s.run(context.Background(), p), 0, `ENOSPC: no space left on device, write
ENOSPC: no space left on device, ftruncate
ENOSPC: no space left on device, write
ENOSPC: no space left on device, mkdir 'd3'
ENOSPC: no space left on device, mkdir 'd4'
EMFILE: too many open files, open 'a'
`, "")
}

func TestJavaScriptRunsShareFilesOnly(t *testing.T) {
	s := newSandbox(t)
	s.expect(s.node(`
globalThis.x = 1; Array.prototype.y = 2; process.env.X = '1'; process.exitCode = 0; console.count();
require('fs').marked = true; require('events').defaultMaxListeners = 3;
require('fs').writeFileSync('/tmp/t', 't'); require('fs').writeFileSync('f', 'kept')`), 0, "default: 1\n", "")
	s.expect(s.node(`
console.count();
console.log(typeof x, [].y, process.env.X, require('fs').marked, require('events').defaultMaxListeners);
console.log(require('fs').readdirSync('/tmp'), require('fs').readFileSync('f', 'utf8'))`), 0, "default: 1\nundefined undefined undefined undefined 10\n[] kept\n", "")
}

func TestJavaScriptConcurrentRuns(t *testing.T) {
	need(t, "node")
	var wg sync.WaitGroup
	for i := range 12 {
		s := newSandbox(t)
		source := fmt.Sprintf(`
globalThis.mine = %d;
const fs = require('fs');
for (let i = 0; i < 20; i++) fs.appendFileSync('log', mine + ' ');
setTimeout(() => console.log(mine, new Set(fs.readFileSync('log', 'utf8').trim().split(' '))), 5);`, i)
		p := s.program("node", "main.js", source)
		wg.Go(func() {
			s.expect(s.run(context.Background(), p), 0, fmt.Sprintf("%d Set(1) { '%d' }\n", i, i), "")
		})
	}
	wg.Wait()
}

func TestJavaScriptArtifactBytes(t *testing.T) {
	s := newSandbox(t)
	o := s.node(`
const all = Buffer.from(Array.from({length: 256}, (_, i) => i));
require('fs').mkdirSync('out', {recursive: true});
require('fs').writeFileSync('out/../a.bin', all);
require('fs').writeFileSync('out/ü ✓.txt', 'häß\ud800', 'utf8');
process.stdout.write(all);
`)
	var want []byte
	for i := range 256 {
		want = append(want, byte(i))
	}
	if o.Code != 0 || o.stdout != string(want) || s.content("a.bin") != string(want) {
		t.Errorf("bytes were changed: %q, %q", o.stdout, o.stderr)
	}
	if got := s.content("out/ü ✓.txt"); got != "häß\ufffd" {
		t.Errorf("text: %q", got)
	}
}
