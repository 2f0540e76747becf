# Sourced before a scenario's script: the function cpu_audit is the command, forked from an interpreter that has loaded
# it (interpreter.py), which starts with the first audit. One audit at a time.
cpu_audit() {
	local IFS=$'\t' in=$TMPDIR/cpu_audit.in out=$TMPDIR/cpu_audit.out code
	if [ ! -p "$in" ]; then
		mkfifo "$in" "$out"
		"$PYTHON" -m tests.node.drivers.interpreter "$in" "$out" >/dev/null &
	fi
	echo "$BASHPID	$*" >"$in"
	read -r code <"$out"
	return "$code"
}
