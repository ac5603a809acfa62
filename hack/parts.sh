#!/usr/bin/env bash
# Runs commands side by side: hack/parts.sh NAME=COMMAND... What one prints is shown in one piece when it ends. In the end
# come the seconds and the summary lines of each; the exit code says whether all succeeded. PARTS_AT_ONCE limits how many run
# at a time: the others wait for their turn, in this order.
set -euo pipefail

logs=$(mktemp -d)
declare -A pids=()
names=()
finish() {
	trap - EXIT INT TERM
	# Each part leads a process group of its own, and specs clean up before they end.
	for pid in "${pids[@]}"; do kill -TERM -- "-$pid" 2>/dev/null || true; done
	for pid in "${pids[@]}"; do timeout 60 bash -c "while kill -0 -- -$pid; do sleep 1; done" 2>/dev/null || kill -KILL -- "-$pid" || true; done
	rm -rf "$logs"
}
trap finish EXIT
trap 'exit 130' INT TERM

begin() {
	local name=${1%%=*}
	set -m
	(
		began=$SECONDS code=0
		bash -euc "${1#*=}" >"$logs/$name" 2>&1 </dev/null || code=$?
		echo "$code $((SECONDS - began))" >"$logs/$name.end"
	) &
	set +m
	pids[$name]=$!
}

parts=("$@")
for part in "$@"; do names+=("${part%%=*}"); done
echo "run ${PARTS_AT_ONCE:-all} at a time: ${names[*]}"

while [[ ${#parts[@]} -gt 0 || ${#pids[@]} -gt 0 ]]; do
	while [[ ${#parts[@]} -gt 0 && ${#pids[@]} -lt ${PARTS_AT_ONCE:-$#} ]]; do
		begin "${parts[0]}"
		parts=("${parts[@]:1}")
	done
	wait -n "${pids[@]}" || true
	for name in "${!pids[@]}"; do
		kill -0 "${pids[$name]}" 2>/dev/null && continue
		unset "pids[$name]"
		read -r code seconds <"$logs/$name.end" || code=1 seconds=0
		printf '\n===== %s: exit code %s after %s s =====\n' "$name" "$code" "$seconds"
		cat "$logs/$name"
	done
done

failed=0
printf '\n===== summary =====\n'
for name in "${names[@]}"; do
	read -r code seconds <"$logs/$name.end" || code=1 seconds=0
	verdict=passed
	[[ $code == 0 ]] || verdict=FAILED failed=1
	printf '%-12s %s after %s s\n' "$name" "$verdict" "$seconds"
	grep -aE '^(FAIL|---) .*[0-9]s|^Ran [0-9]+ of|^(SUCCESS|FAIL)!|^DONE |^[a-z-]+ +(passed|FAILED) after|\[FAIL\]|^=== FAIL' "$logs/$name" | sed 's/^/    /' || true
done

# Last, since the end of a long output is what is read first: what each failed spec or test expected.
for name in "${names[@]}"; do
	sed -En '/^ *\[(FAILED|TIMEDOUT|PANICKED)\]/,/^ *In \[|^$/p; /^ *--- FAIL/,/^ *(---|===|FAIL)/p' "$logs/$name" | cut -c1-300 | head -n 60
done
[[ $failed == 0 ]]
