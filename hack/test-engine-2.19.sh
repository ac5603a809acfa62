#!/usr/bin/env bash
# Runs the tests of the runtime's engine with ansible-core 2.19, that of Debian trixie, whose root file system is made once below
# .devcluster/cache. Fails if a test fails that is not in the list engine-2.19.txt, or if one of the list passes: the list only
# shrinks (Debian, root).
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.."
export CGO_ENABLED=0 GOFLAGS="-trimpath -buildvcs=false"
list=$PWD/hack/engine-2.19.txt
report=$PWD/.devcluster/log/reports/engine-2.19.test.json
packages=(internal/run/engine internal/author/localrun internal/author/scenario/suite)

options=(
	--mode=root --variant=minbase --format=directory --include="$(hack/test-packages.sh list | paste -sd,)" --aptopt='APT::Install-Recommends "false"'
	--dpkgopt='path-exclude=/usr/share/doc/*' --dpkgopt='path-exclude=/usr/share/man/*' --dpkgopt='path-exclude=/usr/share/locale/*'
)

# mirror prints the URL of this machine's mirror of Debian.
mirror() {
	local site
	site=$(apt-get indextargets 'Created-By: Packages' 'Origin: Debian' 'Label: Debian' 'Component: main' --format "\$(SITE)" | awk 'NR == 1')
	case $site in
	mirror+file:* | mirror+copy:*) awk '$1 ~ /^http/ {print $1; exit}' "${site#*:}" ;;
	http*) echo "$site" ;;
	*)
		echo "test-engine-2.19.sh: apt has no mirror of Debian: run apt-get update, or name one in /etc/apt/sources.list" >&2
		return 1
		;;
	esac
}

# make_root FOLDER
make_root() {
	local url proxies
	command -v mmdebstrap >/dev/null || apt-get -q install --yes --no-install-recommends --no-remove mmdebstrap >/dev/null
	url=$(mirror)
	mapfile -t proxies < <(apt-config dump Acquire | sed -n '/^Acquire::http.*::proxy/I{s/;$//;s/^/--aptopt=/p}')
	rm -rf --one-file-system .devcluster/cache/trixie-*
	echo "making a root file system of Debian trixie from $url"
	mkdir -p .devcluster/cache .devcluster/log
	mmdebstrap "${options[@]}" "${proxies[@]}" trixie "$1.new" "$url" >.devcluster/log/trixie.log 2>&1 || {
		tail -n 20 .devcluster/log/trixie.log >&2
		return 1
	}
	mv "$1.new" "$1"
}

root=$PWD/.devcluster/cache/trixie-$(printf '%s\n' "${options[@]}" | sha256sum | cut -c 1-16)
[[ -d $root ]] || make_root "$root"
chroot "$root" dpkg-query -W ansible-core python3 python3-ansible-runner python3-pip openssh-server

work=$PWD/.devcluster/log/engine-2.19
rm -rf "$work"
mkdir -p "$work"
go test -vet=off -c -o "$work/" "${packages[@]/#/./}"

# Mounts and processes belong to namespaces of their own, which end with this command, however it ends. Its shell reaps what
# the tests leave. They write to /tmp, /run and /root alone.
# shellcheck disable=SC2016 # That shell expands it.
unshare --mount --pid --fork --kill-child bash -euc '
	root=$1 work=$2
	mount --bind "$root" "$root"
	mount -o remount,bind,ro "$root"
	mount -t proc proc "$root/proc"
	mount --rbind /dev "$root/dev"
	for folder in tmp run root; do mount -t tmpfs tmpfs "$root/$folder"; done
	mount --bind "$work" "$root/mnt"
	shift 2
	for package; do
		name=${package##*/} code=0 began=$SECONDS
		chroot "$root" /usr/bin/env -i PATH=/usr/sbin:/usr/bin HOME=/root CI=true \
			/mnt/$name.test -test.v=test2json -test.parallel 6 -test.timeout 40m >"$work/$name.log" 2>&1 || code=$?
		echo $code >"$work/$name.code"
		echo "$package: exit code $code after $((SECONDS - began)) s"
	done
' _ "$root" "$work" "${packages[@]}"
rm "$work"/*.test

# output PACKAGE TEST prints what a test has printed.
output() {
	awk -v wanted="$2" '{sub(/^\026/, "")} /^=== / {test = $3; next} test == wanted && !/^--- /' "$work/$1.log" | head -n 20
}

# leaves leaves out tests that fail because of their subtests.
leaves() {
	awk '{name[NR] = $0} END {for (i in name) {leaf = 1; for (j in name) if (index(name[j], name[i] "/") == 1) leaf = 0; if (leaf) print name[i]}}'
}

mkdir -p "${report%/*}"
: >"$report"
code=0
for package in "${packages[@]}"; do
	name=${package##*/}
	go tool test2json -t -p "$package" <"$work/$name.log" >>"$report"
	sed -nE "s/^\x16? *--- (FAIL|SKIP): (\S+) .*/\1 $name.\2/p" "$work/$name.log"
	if [[ $(<"$work/$name.code") -gt 1 ]]; then # 1 is that of failed tests.
		echo "$package did not end: $(grep -am1 '^panic: ' "$work/$name.log")" >&2
		code=1
	fi
done >"$work/results"
if grep '^SKIP' "$work/results"; then
	code=1
fi
sed -n 's/^FAIL //p' "$work/results" | leaves | LC_ALL=C sort >"$work/failed"
sed 's/#.*//; s/ .*//; /^$/d' "$list" | LC_ALL=C sort >"$work/listed"
while read -r test; do
	printf '\n%s failed, and is not in %s:\n' "$test" "${list##*/}"
	output "${test%%.*}" "${test#*.}"
	code=1
done < <(LC_ALL=C comm -23 "$work/failed" "$work/listed")
while read -r test; do
	echo "$test did not fail: remove it from ${list##*/}"
	code=1
done < <(LC_ALL=C comm -13 "$work/failed" "$work/listed")
echo "$(wc -l <"$work/failed") tests failed, $(wc -l <"$work/listed") are listed in ${list##*/}"
exit $code
