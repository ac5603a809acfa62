#!/usr/bin/env bash
# Installs from Debian what `make test` runs the runtime's engine with: Ansible, and an SSH server as the other side; and
# openssl and gpg, whose signatures ours are compared with.
# Without root, or elsewhere, those tests say what they lack and are skipped.
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

# The tests start SSH servers of their own: the package must not start one for the machine.
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
