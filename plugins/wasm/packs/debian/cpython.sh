#!/usr/bin/env bash
# Builds an optimised CPython for the WebAssembly backend from the source packages of
# Debian 12, security patches included: cpython.sh DIRECTORY writes the pack.
#
# As root it installs the packages that are missing; otherwise it says which. Sources
# come through apt from where this machine gets its packages. Nothing is left behind
# but the pack and those packages. JOBS bounds how many compilers run at once.
set -euo pipefail
umask 022

python=python3.11 # what plugins/wasm knows how to run
sources=("$python" zlib bzip2 sqlite3)
tools=(autoconf binaryen clang dpkg-dev libc6-dev libclang-rt-14-dev-wasm32 lld llvm make "$python" tcl wasi-libc)

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
out=$(realpath -m "${1:?usage: cpython.sh DIRECTORY}")
work=$(mktemp -d)
exec 3>&2 # for messages, whatever is redirected
say() { echo "cpython: $*" >&3; }

stage=
finish() {
  local code=$?
  ((code == 0)) || [[ -z $stage ]] || { tail -n 40 "$work/log" >&3; say "$stage: failed"; }
  rm -rf "$work" "$out.new" "$out.old"
}
trap finish EXIT

step() { # step NAME COMMAND...: its output is shown if it fails
  stage=$1
  say "$stage"
  "${@:2}" >"$work/log" 2>&1
}

installed() { [[ $(dpkg-query -W -f '${db:Status-Status}' "$1" 2>/dev/null) == installed ]]; }

# Prefix of commands that tell apt to take sources, in directories of its own.
apt() { apt-get -qq -o Dir::Etc::SourceList=/dev/null -o Dir::Etc::SourceParts="$work/apt/parts" \
  -o Dir::State::Lists="$work/apt/lists" -o Dir::Cache="$work/apt/cache" -o APT::Sandbox::User= "$@"; }

check() {
  . /etc/os-release
  [[ ${ID-} == debian && ${VERSION_ID-} == 12 ]] ||
    { say "this build is for Debian 12 (bookworm), not for ${PRETTY_NAME-this system}"; exit 1; }
  local missing=() p
  for p in "${tools[@]}"; do installed "$p" || missing+=("$p"); done
  ((${#missing[@]})) || return 0
  local install="apt-get install --no-install-recommends ${missing[*]}"
  ((EUID == 0)) || { say "packages are missing; as root: $install"; exit 1; }
  export DEBIAN_FRONTEND=noninteractive
  step "$install" bash -c "apt-get update -qq && $install -y -qq"
}

# The machine's own sources in both formats of apt, with deb-src for deb.
source_lists() {
  mkdir -p "$work"/apt/{parts,lists/partial,cache/archives/partial}
  local f
  for f in /etc/apt/sources.list.d/*.sources; do
    [[ ! -e $f ]] || sed 's/^Types:.*/Types: deb-src/' "$f" >"$work/apt/parts/${f##*/}"
  done
  for f in /etc/apt/sources.list /etc/apt/sources.list.d/*.list; do
    [[ ! -e $f ]] || sed -n 's/^deb\(-src\)\?[[:space:]]/deb-src /p' "$f" >"$work/apt/parts/${f##*/}.list"
  done
  apt update || true # lists that are not Debian's may have no sources
}

fetch() {
  cd "$work"
  local p
  for p in "${sources[@]}"; do
    apt source "$p" ||
      { say "the newest $p is not on the mirror: taking that of the release"; apt source "$p/bookworm"; }
    mv "$p"-*/ "$p"
  done
}

# A system root with WASI's own headers and libraries: the compiler would look for
# what is not there among the machine's.
CC="clang --target=wasm32-wasi --sysroot=$work/sysroot -ffile-prefix-map=$work=/build"
library() { # library NAME FLAGS SOURCE...
  local name=$1 flags=$2
  shift 2
  printf '%s\n' "$@" | xargs -P "$JOBS" -I{} $CC -O3 $flags -c {}.c -o {}.wo
  llvm-ar rcs "$work/lib/lib$name.a" "${@/%/.wo}"
}

libraries() {
  mkdir -p "$work"/{include,lib} "$work"/sysroot/{include,lib}
  ln -s /usr/include/wasm32-wasi "$work/sysroot/include/"
  ln -s /usr/lib/wasm32-wasi "$work/sysroot/lib/"
  cd "$work/zlib"
  library z "" adler32 crc32 deflate infback inffast inflate inftrees trees zutil compress uncompr
  cd "$work/bzip2"
  library bz2 -D_FILE_OFFSET_BITS=64 blocksort huffman crctable randtable compress decompress bzlib
  mkdir "$work/sqlite3/build"
  cd "$work/sqlite3/build"
  CC=clang ../configure -q --disable-readline
  make -s BCC=clang sqlite3.c
  cp "$here/sqlite.h" "$work/include/wasi-for-sqlite.h"
  library sqlite3 "-w -include $work/include/wasi-for-sqlite.h -D_WASI_EMULATED_GETPID -DSQLITE_THREADSAFE=0 \
    -DSQLITE_OMIT_LOAD_EXTENSION -DSQLITE_OMIT_WAL -DSQLITE_MAX_MMAP_SIZE=0 -DSQLITE_ENABLE_FTS3 -DSQLITE_ENABLE_FTS4 \
    -DSQLITE_ENABLE_FTS5 -DSQLITE_ENABLE_GEOPOLY -DSQLITE_ENABLE_MATH_FUNCTIONS -DSQLITE_ENABLE_RTREE" sqlite3
  cp "$work"/zlib/{zlib,zconf}.h "$work/bzip2/bzlib.h" sqlite3.h "$work/include/"
}

# Debian's patches change configure.ac, so that configure is made again, as in
# Debian's own build.
configure() {
  cd "$work/$python"
  autoconf
  mkdir -p build/Modules
  cd build
  printf '*disabled*\n_uuid _lzma _crypt\n' >Modules/Setup.local
  local dep="-I$work/include"
  PKG_CONFIG_PATH='' PKG_CONFIG_LIBDIR=/nonexistent CONFIG_SITE=../Tools/wasm/config.site-wasm32-wasi \
    ZLIB_CFLAGS=$dep ZLIB_LIBS="-L$work/lib -lz" BZIP2_CFLAGS=$dep BZIP2_LIBS="-L$work/lib -lbz2" \
    LIBSQLITE3_CFLAGS=$dep LIBSQLITE3_LIBS="-L$work/lib -lsqlite3" \
    ../configure -q --host=wasm32-wasi --build="$(dpkg-architecture -qDEB_BUILD_GNU_TYPE)" \
    --with-build-python="/usr/bin/$python" --with-pymalloc --disable-test-modules --disable-ipv6 \
    CC="$CC" CXX="$CC" CPP="$CC -E" AR=llvm-ar RANLIB=llvm-ranlib OPT="-DNDEBUG -O3 -fwrapv" CPPFLAGS="$dep"
}

# The exports are what the backend starts a run from a snapshot with. The stack is as
# large as CPython's own limit on nested calls needs, and lies below everything else,
# so that a program that goes beyond it crashes and overwrites nothing.
compile() {
  cd "$work/$python/build"
  make -s -j "$JOBS" python.wasm pybuilddir.txt LINKFORSHARED="-z stack-size=$((16 << 20)) -Wl,--initial-memory=$((20 << 20)) \
    -Wl,--export=PyRun_SimpleStringFlags -Wl,--export=__stack_pointer -Wl,--no-check-features"
}

optimise() { wasm-opt -O3 --enable-mutable-globals "$work/$python/build/python.wasm" -o "$out.new/python.wasm"; }

JOBS=${JOBS:-$(nproc)}
check
mkdir -p "$out.new"
step "listing Debian's sources" source_lists
step "fetching ${sources[*]}" fetch
step "compiling zlib, bzip2 and SQLite" libraries
step "configuring CPython" configure
step "compiling CPython" compile
step "optimising the module" optimise
step "writing the pack" "/usr/bin/$python" -I "$here/pack.py" "$work" "$out.new"
[[ ! -e $out ]] || mv "$out" "$out.old"
mv "$out.new" "$out"
