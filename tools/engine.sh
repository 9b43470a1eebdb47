#!/usr/bin/env bash
# A private Docker engine for tests, on Debian as root: with its own network,
# its own files and a socket that only root reaches, so that any number run side
# by side and none touches an engine of the machine. Its images are made from
# Debian packages, from where the machine itself gets them; no registry is asked.
#
#   tools/engine.sh start            install what is missing and start the engine
#   tools/engine.sh image NAME...    build images: base, minimal, full
#   tools/engine.sh env              print what to export for the tests: the images
#                                    that are there
#   tools/engine.sh docker ARGS...   the docker command, on this engine
#   tools/engine.sh stop [--keep]    end the engine and what runs in it; delete its
#                                    files, or keep the images for the next start
#
#   CAISSON_ENGINE_DIR      where its files are (/var/tmp/caisson-engine)
#   CAISSON_ENGINE_OPTIONS  further options of dockerd
#
# Every command may be repeated, and start mends what a killed engine left.
set -euo pipefail
cd "$(dirname "$0")/.."

dir=${CAISSON_ENGINE_DIR:-/var/tmp/caisson-engine}
socket=$dir/docker.sock
network=caisson$(printf %s "$dir" | cksum | cut -d ' ' -f 1)
images=plugins/docker/images
# What images are built with: docker.io brings dockerd and the command, and
# slirp4netns lets builds reach the package mirror without a rule on the machine.
packages='docker.io iptables iproute2 mmdebstrap mount slirp4netns'

say() { echo "engine: $*" >&2; }
die() { say "$*"; exit 1; }
dk() { DOCKER_HOST=unix://$socket DOCKER_CONFIG=$dir/config DOCKER_BUILDKIT=0 docker "$@"; }
have() { dk image inspect "caisson/$1:test" >/dev/null 2>&1; }

# alive FILE NAME: whether FILE holds the id of a process of that NAME.
alive() { [ -s "$1" ] && [ "$(cat "/proc/$(cat "$1")/comm" 2>/dev/null)" = "$2" ]; }
up() { alive "$dir/dockerd.pid" dockerd && dk version >/dev/null 2>&1; }

# finish FILE NAME: ends that process, by force after ten seconds.
finish() {
  alive "$1" "$2" || return 0
  local pid
  pid=$(cat "$1")
  kill "$pid" 2>/dev/null || return 0
  for _ in $(seq 100); do kill -0 "$pid" 2>/dev/null || return 0; sleep 0.1; done
  kill -9 "$pid" 2>/dev/null || true
}

install_packages() {
  local missing=() p policy=/usr/sbin/policy-rc.d made=
  for p in $packages; do
    dpkg-query -W -f '${db:Status-Abbrev}' "$p" 2>/dev/null | grep -q '^ii' || missing+=("$p")
  done
  # Where the command has a package of its own, the engine does not bring it.
  if [ ${#missing[@]} -gt 0 ] || ! command -v docker >/dev/null; then
    say "installing ${missing[*]:-the docker command}"
    apt-get -o DPkg::Lock::Timeout=300 update -qq
    command -v docker >/dev/null || ! apt-cache show docker-cli >/dev/null 2>&1 || missing+=(docker-cli)
    # No package may start an engine of its own.
    [ -e $policy ] || { printf '#!/bin/sh\nexit 101\n' >$policy && chmod +x $policy && made=1; }
    DEBIAN_FRONTEND=noninteractive apt-get -o DPkg::Lock::Timeout=300 -o Dpkg::Options::=--force-unsafe-io \
      install -y -qq --no-install-recommends "${missing[@]}" >"$dir/apt.log" 2>&1 || { tail -n 20 "$dir/apt.log" >&2; exit 1; }
    [ -z "$made" ] || rm -f $policy
  fi
}

start_network() {
  [ -e "/run/netns/$network" ] || { ip netns add "$network" && ip -n "$network" link set lo up; }
  alive "$dir/slirp.pid" slirp4netns && return
  setsid slirp4netns --configure --mtu=65520 --disable-host-loopback --netns-type=path \
    "/run/netns/$network" tap0 >"$dir/slirp.log" 2>&1 </dev/null &
  echo $! >"$dir/slirp.pid"
}

start() {
  up && return
  mountpoint -q /sys/fs/cgroup || mount -t cgroup2 none /sys/fs/cgroup
  start_network
  # What a killed engine left would hold the next one up.
  rm -f "$socket" "$dir/dockerd.pid" "$dir/exec/containerd/containerd.pid"
  # 10.0.2.3 is where slirp4netns answers for the resolvers of the machine.
  # shellcheck disable=SC2086 # options are words
  setsid nsenter "--net=/run/netns/$network" dockerd --host "unix://$socket" --pidfile "$dir/dockerd.pid" \
    --data-root "$dir/data" --exec-root "$dir/exec" --dns 10.0.2.3 --userland-proxy=false \
    --shutdown-timeout 2 --log-level warn ${CAISSON_ENGINE_OPTIONS:-} >"$dir/dockerd.log" 2>&1 </dev/null &
  local pid=$!
  for _ in $(seq 300); do
    dk version >/dev/null 2>&1 && return
    kill -0 $pid 2>/dev/null || break
    sleep 0.1
  done
  tail -n 20 "$dir/dockerd.log" >&2
  die "dockerd did not come up"
}

# base is a small Debian of the machine's own release, mirrors and keys.
image_base() {
  have base && return
  local release log=$dir/base.log
  release=$(. /etc/os-release && echo "$VERSION_CODENAME")
  # shellcheck disable=SC2016 # apt fills them in
  apt-get indextargets --format 'deb $(REPO_URI) $(RELEASE) $(COMPONENT)' 'Created-By: Packages' 'Origin: Debian' |
    sort -u >"$dir/sources.list"
  grep -q " $release " "$dir/sources.list" || die "apt knows no mirror of Debian $release; run apt-get update"
  mmdebstrap --quiet --variant=apt --dpkgopt=force-unsafe-io --aptopt='Acquire::Languages "none"' \
    --hook-dir=/usr/share/mmdebstrap/hooks/merged-usr --include=usr-is-merged \
    --customize-hook='cd "$1" && find usr/share/doc -type f ! -name copyright -delete && rm -rf usr/share/man/* usr/share/locale/* usr/share/info/* var/lib/apt/lists/*' \
    "$release" - "$dir/sources.list" 2>"$log" | dk import -c 'CMD ["bash"]' - caisson/base:test >/dev/null || {
    tail -n 20 "$log" >&2
    die "the base image was not built"
  }
}

image() { # image TARGET: builds that target of the Dockerfile, what it is from first
  case $1 in base) image_base; return ;; minimal | full) ;; *) die "no image $1: there are base, minimal and full" ;; esac
  image_base
  local log
  log=$(mktemp "$dir/build.XXXXXX")
  # Whoever tests meanwhile goes first. The files decide whether anything is built.
  dk build --quiet --cpu-shares 256 --build-arg BASE=caisson/base:test --target "$1" --tag "caisson/$1:test" $images >"$log" 2>&1 || {
    cat "$log" >&2
    die "image $1 was not built"
  }
  rm -f "$log"
}

# What the engine leaves when it was killed: programs of containers, by its path.
orphans() {
  { grep -lasF -- "$dir/exec/" /proc/[0-9]*/cmdline || true; } | cut -d / -f 3 | while read -r p; do
    case $(cat "/proc/$p/comm" 2>/dev/null) in containerd-shim* | runsc*) echo "$p" ;; esac
  done
}

stop() {
  [ -d "$dir" ] || return 0
  # Containers that outlived their engine end cleanly only through one.
  if ! up && [ -n "$(orphans)" ]; then start; fi
  if up; then dk ps --all --quiet | xargs -r env DOCKER_HOST="unix://$socket" docker rm --force --volumes >/dev/null 2>&1 || true; fi
  finish "$dir/dockerd.pid" dockerd
  finish "$dir/exec/containerd/containerd.pid" containerd
  finish "$dir/slirp.pid" slirp4netns
  orphans | xargs -r kill -9 2>/dev/null || true
  rm -f "$dir/slirp.pid" "$socket"
  [ ! -e "/run/netns/$network" ] || ip netns del "$network"
  for _ in 1 2 3; do
    { grep -o " $dir[^ ]*" /proc/mounts || true; } | sort -r | xargs -r -n 1 umount --lazy || true
  done
  [ "${1:-}" = --keep ] || rm -rf "$dir"
}

# One function, so that the script may change while it runs.
main() {
  [ "$(id -u)" = 0 ] || die "needs root: it makes a network, mounts and processes of other users"
  [ ${#socket} -lt 100 ] || die "CAISSON_ENGINE_DIR: too long for the path of a socket"
  case ${1:-} in
    start)
      mkdir -p "$dir/config" && chmod 700 "$dir"
      install_packages
      start
      ;;
    image)
      up || die "the engine does not run; tools/engine.sh start"
      for i in "${@:2}"; do image "$i"; done
      ;;
    env)
      echo "export CAISSON_TEST_DOCKER_HOST=unix://$socket"
      ! have minimal || echo "export CAISSON_TEST_DOCKER_IMAGE=caisson/minimal:test"
      ! have full || echo "export CAISSON_TEST_DOCKER_FULL_IMAGE=caisson/full:test"
      ;;
    docker) dk "${@:2}" ;;
    stop) stop "${2:-}" ;;
    *) sed -n '2,/^set/s/^# \{0,1\}//p' "$0" >&2; exit 2 ;;
  esac
}
main "$@"
exit
