"""Writes the pack from what cpython.sh built: pack.py WORK OUT.

The description, pack.json, comes last. It has what the backend needs to know and
cannot find out, and the digest of everything that the backend reads.
"""

import compileall
import hashlib
import json
import pathlib
import platform
import py_compile
import re
import shutil
import subprocess
import sys
import zipfile

work, out = (pathlib.Path(p) for p in sys.argv[1:])
version = ".".join(platform.python_version_tuple()[:2])
source = work / f"python{version}"
library = source / "Lib"
home = f"/usr/local/lib/python{version}"

# What cannot work in the sandbox, and what is of no use there.
ABSENT = """
    __pycache__ ctypes curses distutils ensurepip idlelib lib2to3 msilib multiprocessing ssl.py
    test tests tkinter turtle.py turtledemo venv
""".split()


def add_sysconfig():
    (data,) = (source / "build").glob("build/lib.*/_sysconfigdata_*.py")
    (library / data.name).write_text(data.read_text().replace(str(work), "/build"))


def remove_absent():
    for path in sorted(library.rglob("*")):
        if path.name in ABSENT and path.exists():
            shutil.rmtree(path) if path.is_dir() else path.unlink()


def write_library(target):
    """Stores every module with its byte code, which is used whatever the source's
    time is. Nothing is compressed: the backend serves the files from where they lie."""
    ok = compileall.compile_dir(
        library, stripdir=library, prependdir=home, quiet=1, workers=2,
        invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH,
    )
    if not ok:
        raise SystemExit("the standard library does not compile")
    with zipfile.ZipFile(target, "w", zipfile.ZIP_STORED) as z:
        z.writestr(zipfile.ZipInfo("lib-dynload/"), b"")  # CPython looks for it
        for path in sorted(library.rglob("*")):
            if path.is_file() and path.suffix in (".py", ".pyc"):
                z.writestr(zipfile.ZipInfo(str(path.relative_to(library))), path.read_bytes())


def write_licences(target):
    target.mkdir()
    shutil.copy(source / "LICENSE", target / "cpython")
    shutil.copy(source / "Doc/license.rst", target / "cpython-incorporated")
    for name in ("zlib", "bzip2", "sqlite3"):
        shutil.copy(work / name / "debian/copyright", target / name)
    for package in ("wasi-libc", "libclang-rt-14-dev-wasm32"):
        shutil.copy(f"/usr/share/doc/{package}/copyright", target / package)


def packages():
    """The versions of what is inside."""
    changelogs = {p.parent.parent.name: p for p in work.glob("*/debian/changelog")}
    found = {name: re.match(r"\S+ \((\S+)\)", p.read_text())[1] for name, p in changelogs.items()}
    for name in ("wasi-libc", "clang"):
        query = subprocess.run(["dpkg-query", "-W", "-f", "${Version}", name], check=True, capture_output=True, text=True)
        found[name] = query.stdout
    return dict(sorted(found.items()))


def describe(name):
    content = (out / name).read_bytes()
    return {"file": name, "bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}


def main():
    add_sysconfig()
    remove_absent()
    write_library(out / "library.zip")
    write_licences(out / "licences")
    patch = re.search(r'#define PY_VERSION\s+"([^"+]+)', (source / "Include/patchlevel.h").read_text())
    description = {
        "format": 1,
        "pack": "cpython",
        "version": f"CPython {patch[1]}, optimised build",
        "licence": "PSF-2.0",
        "packages": packages(),
        "module": describe("python.wasm"),
        "library": describe("library.zip") | {"directory": home},
        "exports": {"run": "PyRun_SimpleStringFlags", "stackPointer": "__stack_pointer"},
    }
    (out / "pack.json").write_text(json.dumps(description, indent=2) + "\n")


main()
