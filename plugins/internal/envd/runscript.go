package envd

// runScript is a whole run: it places what the program needs, looks at the files, runs
// the steps, each in a session of its own, kills what they leave behind, and looks at
// the files again. Its marks, besides those of scan, are
//
//	M INDEX        an optional input could not be placed
//	F REASON       the run could not begin; nothing ran
//	S PID          a step's next instruction is the program's
//	E STATUS STEP  the steps are over; also on stderr
//	T TEXT         processor time of children, before the steps and after
//
// TERM stops it before the next step. USR1, sent to all of its session, makes it give up
// what it is doing: the scan, which is then seen to be incomplete.
const runScript = functions + `d=$1 root=$2 cwd=$3 depth=$4 limit=$5 cpu=$6 in=$7; shift 7
inner='s=$1 f=$2 t=$3; shift 3
[ "$t" = 0 ] || { ulimit -S -t "$t"; ulimit -H -t "$((t+1))"; }
echo $$ >"$f"
printf "\000%s S %d\n" "$s" $$
exec "$@"'
stop=
trap 'stop=1' TERM
trap : USR1
for p in /mnt /mnt/data /mnt/.caisson "$d"; do [ ! -L "$p" ] || fail link "$p"; done
mkdir -p /mnt/data "$d/p" || fail disk
find /tmp -mindepth 1 -maxdepth 1 ! -name '.X*' ! -name .ICE-unix -exec rm -rf -- {} +
[ -d /tmp ] || mkdir /tmp
if [ "$2" = - ]; then [ -f "$d/p/$1" ] || fail program; else printf %s "${2#=}" >"$d/p/$1" || fail disk; fi
shift 2
k=$1 i=0; shift
while [ "$i" -lt "$k" ]; do
	if [ "$2" != - ] && put "$2" "$3" "$4"; then :; elif [ "$1" = o ]; then mark M "$i"; else fail place "input $i"; fi
	shift 4
	i=$((i+1))
done
cd -- "$cwd" || fail dir
look() {
	[ "$depth" = 0 ] && return
	if [ -d "$root" ] && linkless "$root"; then
		scan "$root" 128 "$limit"
		[ "$s" -le 1 ] || depth=0
	else mark B; mark b 0; mark B 3>&4; mark b 0 3>&4
	fi
}
look
case $in in
-) ;;
'') exec </dev/null;;
*) exec <"$in" && rm -f -- "$in" || fail input;;
esac
exec 5<&0 </dev/null
spent() { times >"$d/t"; { read -r x; read -r x; } <"$d/t"; mark T "$x"; }
spent
i=0
while :; do
	k=$1 j=1 c=; shift
	while [ "$j" -le "$k" ]; do c="$c \"\${$j}\"" j=$((j+1)); done
	[ "$k" != "$#" ] || exec <&5
	(eval "exec setsid /bin/sh -c \"\$inner\" caisson \"\$n\" \"\$d/g\" \"\$cpu\" $c") >&3 2>&4 3>&- 4>&- 5>&-
	s=$?
	read -r x <"$d/g" && kill -KILL "-$x"
	shift "$k"
	[ "$s" = 0 ] && [ -z "$stop" ] && [ "$#" -gt 0 ] || break
	i=$((i+1))
done
e=$s
spent
mark E "$e" "$i"; mark E "$e" "$i" 3>&4
rm -rf "$d"
look
find /mnt/.caisson -mindepth 1 -maxdepth 1 -mmin +60 -exec rm -rf -- {} +
`
