#!/usr/bin/env bash
# Installs the Debian packages for the tests of the runtime's engine, Ansible and an SSH server, and for the tests of
# signatures, openssl and gpg. Without root, or on other systems, these tests are skipped.
set -euo pipefail

packages=(ansible-core python3-ansible-runner python3-kubernetes python3-pip openssh-client openssh-server libnss-wrapper openssl gnupg)

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
