#!/usr/bin/env bash
# A private Redis for tests and for trying replicas, on Debian: a socket in a directory
# of its own that only its user reaches, no port, and nothing of any other Redis of the
# machine. Tests that break a server start their own and need only the program.
#
#   tools/redis.sh install           install redis-server, without starting any; as root
#   tools/redis.sh start DIR [aof]   start; with aof, what it knows survives a restart
#   tools/redis.sh env DIR           print what to export for the tests
#   tools/redis.sh stop DIR          end it; without aof, what it knew is gone
#
# Every command may be repeated.
set -euo pipefail

say() { echo "redis: $*" >&2; }
die() { say "$*"; exit 1; }

install_package() {
  command -v redis-server >/dev/null && return
  local policy=/usr/sbin/policy-rc.d made=
  apt-get -o DPkg::Lock::Timeout=300 update -qq
  # No package may start a server of its own.
  [ -e $policy ] || { printf '#!/bin/sh\nexit 101\n' >$policy && chmod +x $policy && made=1; }
  DEBIAN_FRONTEND=noninteractive apt-get -o DPkg::Lock::Timeout=300 install -y -qq --no-install-recommends redis-server >/dev/null || true
  [ -z "$made" ] || rm -f $policy
  command -v redis-server >/dev/null || die "redis-server could not be installed"
}

command=${1-} dir=${2-} mode=${3-}
case $command in
install) install_package; exit ;;
start | env | stop) [ -n "$dir" ] || die "$command: name a directory" ;;
*) sed -n '2,/^set/{/^#/s/^# \{0,1\}//p}' "$0" >&2; exit 2 ;;
esac
case $mode in '' | aof) ;; *) die "start DIR [aof], not \"$mode\"" ;; esac

mkdir -p -m 0700 "$dir"
dir=$(cd "$dir" && pwd)
socket=$dir/redis.sock
# The path of a socket may not be longer.
[ ${#socket} -lt 104 ] || die "the directory's path is too long for a socket"
cli() { redis-cli -s "$socket" "$@"; }
# pid of our server: the one whose socket this is.
up() { cli ping 2>/dev/null | grep -q PONG; }

case $command in
start)
  command -v redis-server >/dev/null || die "redis-server is not installed; tools/redis.sh install"
  ! up || exit 0
  rm -f "$socket"
  appendonly=no
  [ -z "$mode" ] || appendonly=yes
  redis-server --port 0 --unixsocket "$socket" --unixsocketperm 700 --dir "$dir" --daemonize yes \
    --pidfile "$dir/redis.pid" --logfile "$dir/redis.log" --loglevel warning \
    --save '' --appendonly $appendonly --maxmemory 256mb --maxmemory-policy noeviction
  for _ in $(seq 200); do ! up || exit 0; sleep 0.05; done
  die "it does not answer; see $dir/redis.log"
  ;;
env) echo "export CAISSON_TEST_REDIS='$socket'" ;;
stop)
  ! up || cli shutdown nosave >/dev/null 2>&1 || true
  for _ in $(seq 100); do up || exit 0; sleep 0.05; done
  die "it does not end"
  ;;
esac
