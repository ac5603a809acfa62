#!/usr/bin/env bash
# Runs lanes of commands side by side, each lane one command after the other:
#
#   parts.sh NAME=COMMAND... [-- NAME=COMMAND...]...
#
# What a command prints is shown in one piece when it ends. Last come the ends of what failed commands printed, since the end of a
# long output is what is read first. FOLDER/parts.tsv gets a line with name, exit code and seconds for each command, where REPORTS names
# FOLDER. A command that fails does not keep the others from running.
set -euo pipefail

logs=$(mktemp -d)
table=${REPORTS:-$logs}/parts.tsv
lanes=()
finish() {
	trap - EXIT INT TERM
	# Each command leads a process group of its own, and specs clean up before they end.
	for pid in "${lanes[@]}" $(cat "$logs"/*.pid 2>/dev/null || true); do
		kill -TERM -- "-$pid" 2>/dev/null || continue
		timeout 60 bash -c "while kill -0 -- -$pid; do sleep 1; done" 2>/dev/null || kill -KILL -- "-$pid" || true
	done
	rm -rf "$logs"
}
trap finish EXIT
trap 'exit 130' INT TERM

# run NAME=COMMAND
run() {
	local name=${1%%=*} began=$SECONDS code=0
	set -m
	bash -euc "${1#*=}" >"$logs/$name" 2>&1 </dev/null &
	set +m
	echo $! >"$logs/$name.pid"
	wait $! || code=$?
	rm "$logs/$name.pid"
	printf '%s\t%s\t%s\n' "$name" "$code" $((SECONDS - began)) >>"$table"
	flock "$logs" cat - "$logs/$name" <<<$'\n'"===== $name: exit code $code after $((SECONDS - began)) s ====="
}

lane() { for part; do run "$part"; done; }

lane=()
for argument in "$@" --; do
	if [[ $argument != -- ]]; then
		lane+=("$argument")
		continue
	fi
	set -m
	lane "${lane[@]}" &
	set +m
	lanes+=($!)
	lane=()
done
wait

while read -r name code _; do
	if [[ $code != 0 ]]; then
		printf '\n===== the end of %s =====\n' "$name"
		cut -c1-300 "$logs/$name" | tail -n 15
	fi
done <"$table"
! grep -qvP '\t0\t' "$table"
