# Sourced before a scenario's script: the function cpu_audit is the command, forked from an interpreter that has loaded
# it (interpreter.py), which starts with the first audit. One audit at a time.
cpu_audit() {
	local IFS=$'\t' code
	if [ ! -p /run/cpu_audit.in ]; then
		mkfifo /run/cpu_audit.in /run/cpu_audit.out
		"$PYTHON" -m tests.node.drivers.interpreter /run/cpu_audit.in /run/cpu_audit.out >/dev/null &
	fi
	echo "$BASHPID	$*" >/run/cpu_audit.in
	read -r code </run/cpu_audit.out
	return "$code"
}
