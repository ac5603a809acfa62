#!/usr/bin/env bash
# Installs the Debian packages for the tests of the runtime's engine, Ansible and an SSH server, and for the tests of
# signatures, openssl and gpg. Without root, or on other systems, these tests are skipped.
#
#   test-packages.sh            install them
#   test-packages.sh list       print their names
#   test-packages.sh versions   print a digest of the versions of all that these tests run: their input ENGINE_VERSIONS
set -euo pipefail

packages=(ansible-core python3-ansible-runner python3-kubernetes python3-pip openssh-client openssh-server libnss-wrapper openssl gnupg)

# versions prints the packages with all that they depend on, and what was installed without Debian.
versions() {
	local program python=python3
	if command -v apt-cache >/dev/null; then
		apt-cache depends --recurse --installed --no-{suggests,recommends,conflicts,breaks,replaces,enhances} "${packages[@]}" |
			grep '^[a-z]' | LC_ALL=C sort -u | xargs dpkg-query -W 2>/dev/null || true
	fi
	for program in ansible-playbook ansible-runner ssh; do
		command -v "$program" || echo "no $program"
	done
	ssh -V 2>&1 || true
	if program=$(command -v ansible-playbook); then
		python=$(sed -n '1s/^#!//p' "$program")
	fi
	$python -m pip list --disable-pip-version-check 2>&1 || true
}

case ${1-} in
list)
	printf '%s\n' "${packages[@]}"
	exit
	;;
versions)
	versions | sha256sum | cut -c 1-16
	exit
	;;
esac

missing=()
for package in "${packages[@]}"; do
	dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null | grep -qx installed || missing+=("$package")
done
[[ ${#missing[@]} -gt 0 ]] || exit 0

if [[ $(id -u) != 0 ]] || ! command -v apt-get >/dev/null; then
	echo "not installed, so some tests will be skipped: ${missing[*]}" >&2
	exit 0
fi

# The tests start their own SSH servers: the package must not start a system service.
policy=/usr/sbin/policy-rc.d
if [[ ! -e $policy ]]; then
	printf '#!/bin/sh\nexit 101\n' >"$policy"
	chmod +x "$policy"
	trap 'rm -f "$policy"' EXIT
fi
echo "installing Debian packages: ${missing[*]}"
export DEBIAN_FRONTEND=noninteractive
apt-get -q update >/dev/null
apt-get -q install --yes --no-install-recommends --no-remove "${missing[@]}" >/dev/null
