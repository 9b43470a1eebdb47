# The program of the conformance kit: its arguments are operations, each with a
# fixed number of arguments of its own, carried out in order. POSIX sh.
set -eu

parents() {
	case $1 in
	*/*) mkdir -p -- "${1%/*}" ;;
	esac
}

much() {
	head -c "$1" /dev/zero | tr '\0' x
}

hex() {
	printf %s "$1" | od -An -v -tx1 | tr -d ' \n'
	echo
}

# ask makes a call and says what came of it.
ask() {
	if text=$("$CAISSON_CALL" "$@" 2>"$TMPDIR/said"); then
		printf '%s\n' "$text"
	else
		printf 'error: '
		cat "$TMPDIR/said"
	fi
}

while [ $# -gt 0 ]; do
	op=$1
	shift
	case $op in
	out) printf %s "$1"; shift ;;
	err) printf %s "$1" >&2; shift ;;
	outn) much "$1"; shift ;;
	errn) much "$1" >&2; shift ;;
	exit) exit "$1" ;;
	write) parents "$1"; printf %s "$2" >"$1"; shift 2 ;;
	append) printf %s "$2" >>"$1"; shift 2 ;;
	writen) parents "$1"; much "$2" >"$1"; shift 2 ;;
	show) cat -- "$1"; shift ;;
	exists) if [ -e "$1" ]; then printf yes; else printf no; fi; shift ;;
	rm) rm -- "$1"; shift ;;
	mkdir) mkdir -p -- "$1"; shift ;;
	mv) mv -- "$1" "$2"; shift 2 ;;
	touch) touch -d "@$1" -- "$2"; shift 2 ;;
	link) ln -s -- "$1" "$2"; shift 2 ;;
	args) for a; do hex "$a"; done; exit 0 ;;
	env) eval "printf %s \"\${$1-(unset)}\""; shift ;;
	cwd) pwd | tr -d '\n' ;;
	cat) cat ;;
	spin) while :; do :; done ;;
	sleep) sleep "$(($1 / 1000)).$(printf %03d $(($1 % 1000)))"; shift ;;
	call) ask "$1" "$2"; shift 2 ;;
	size) "$CAISSON_CALL" "$1" | tr -d '\n' | wc -c | tr -d ' \n'; shift ;;
	gather)
		i=0
		while [ "$i" -lt "$1" ]; do
			"$CAISSON_CALL" "$2" "{\"n\":$i}" >"$TMPDIR/answer$i" &
			i=$((i + 1))
		done
		wait
		i=0
		while [ "$i" -lt "$1" ]; do
			cat "$TMPDIR/answer$i"
			i=$((i + 1))
		done
		shift 2
		;;
	pair)
		"$CAISSON_CALL" "$1" '{"who":"a"}' >"$TMPDIR/answer" &
		"$CAISSON_CALL" "$1" '{"who":"b"}' >"$TMPDIR/other"
		wait
		cat "$TMPDIR/answer" "$TMPDIR/other"
		shift
		;;
	open) "$CAISSON_CALL" "$1" >/dev/null & shift ;;
	dial)
		if CAISSON_CONTROL=$1 "${CAISSON_CALL-no-such-command}" intruder >/dev/null 2>&1; then printf connected; else printf refused; fi
		shift
		;;
	*) printf 'unknown operation %s' "$op" >&2; exit 1 ;;
	esac
done
