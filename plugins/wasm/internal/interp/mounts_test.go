package interp

import (
	"context"
	"testing"
)

// What is moved between /tmp and /mnt/data is copied by programs that are told that
// these are two devices.
func TestMoveBetweenMounts(t *testing.T) {
	for interpreter, p := range map[string]struct{ file, source string }{
		"python3": {"main.py", "import os, shutil\nopen('/tmp/a', 'w').write('x')\ntry: os.rename('/tmp/a', '/mnt/data/a')\nexcept OSError as e: print(e.strerror)\nshutil.move('/tmp/a', '/mnt/data/a')"},
		"node":    {"main.js", "const fs = require('fs'); fs.writeFileSync('/tmp/a', 'x'); try { fs.renameSync('/tmp/a', '/mnt/data/a') } catch (e) { console.log(e.code === 'EXDEV' ? 'Cross-device link' : e.code) } fs.copyFileSync('/tmp/a', '/mnt/data/a')"},
		"ruby":    {"main.rb", "require 'fileutils'\nFile.write('/tmp/a', 'x')\nbegin; File.rename('/tmp/a', '/mnt/data/a'); rescue Errno::EXDEV; puts 'Cross-device link'; end\nFileUtils.mv('/tmp/a', '/mnt/data/a')"},
		"php":     {"main.php", "<?php file_put_contents('/tmp/a', 'x'); echo rename('/tmp/a', '/mnt/data/a') ? \"Cross-device link\\n\" : \"no\\n\";"},
	} {
		t.Run(interpreter, func(t *testing.T) {
			need(t, interpreter)
			s := newSandbox(t)
			s.expect(s.run(context.Background(), s.program(interpreter, p.file, p.source)), 0, "Cross-device link\n", "")
			if got := s.content("a"); got != "x" {
				t.Errorf("the file has %q", got)
			}
		})
	}
}
