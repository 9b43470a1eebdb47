package interp

import "testing"

// Programs look around above their mounts, and make directories that are there.
func TestPythonAboveTheMounts(t *testing.T) {
	s := newSandbox(t)
	s.expect(s.python(`
import os, pathlib
for d in "/mnt/data", "/tmp", "/mnt", "/mnt/data/out/deep":
    os.makedirs(d, exist_ok=True)
print(sorted(os.listdir("/")), os.listdir("/mnt"), os.path.isdir("/run/caisson"))
print(pathlib.Path("/mnt/data").resolve(), os.path.exists("/etc/passwd"), os.path.exists("/proc/1"))
for change in (
    lambda: open("/file", "w"), lambda: os.mkdir("/dir"), lambda: os.rename("/mnt", "/m"), lambda: os.rmdir("/tmp/../mnt"),
    lambda: open("/mnt/file", "a"), lambda: os.symlink("mnt", "/link"), lambda: os.remove("/mnt"), lambda: os.mkdir("/mnt"),
):
    try:
        print("changed", change())
    except OSError as e:
        print(type(e).__name__, end=" ")
`), 0, `['mnt', 'run', 'tmp'] ['data'] True
/mnt/data False False
OSError OSError OSError PermissionError OSError OSError OSError FileExistsError `, "")
}

// Of devices there are those that programs open without a thought.
func TestPythonDevices(t *testing.T) {
	s := newSandbox(t)
	s.expect(s.python(`
import os, stat, subprocess
print(len(os.read(os.open("/dev/zero", os.O_RDONLY), 1 << 24)) == 1 << 20)
print(open("/dev/null").read() == "", open("/dev/zero", "rb").read(3), len(set(open("/dev/urandom", "rb").read(64))) > 30)
with open(os.devnull, "w") as f:
    print(f.write("gone"), stat.S_ISCHR(os.stat("/dev/null").st_mode), os.path.exists("/dev/urandom"))
for path in "/dev/mem", "/dev/null/x", "/dev":
    try: print("opened", open(path))
    except OSError as e: print(type(e).__name__)
`), 0, "True\nTrue b'\\x00\\x00\\x00' True\n4 True True\nFileNotFoundError\nFileNotFoundError\nFileNotFoundError\n", "")
}
