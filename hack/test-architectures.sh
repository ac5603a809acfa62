#!/usr/bin/env bash
# Builds all programs for the architectures of the images on which nobody develops, and runs unit tests of pure packages on an
# emulated s390x, whose byte order is big-endian. Needs root and Debian to install the emulator; without it, only the programs are built.
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.."
export CGO_ENABLED=0 GOFLAGS=-trimpath

# What reads and writes the bytes of archives, signatures, digests, signed records and messages.
packages=(source/archive collection/model platform/dialguard collection/findings author/galaxy run/gate platform/printable source/verify)

for architecture in ppc64le s390x; do
	began=$SECONDS
	GOARCH=$architecture go build -o /dev/null ./cmd/...
	echo "programs for $architecture: $((SECONDS - began)) s"
done

emulator=qemu-s390x-static
if ! command -v $emulator >/dev/null; then
	if [[ $(id -u) != 0 ]] || ! command -v apt-get >/dev/null; then
		echo "$emulator is missing, so no tests run on s390x: install Debian's package qemu-user-static" >&2
		exit 0
	fi
	apt-get -q update >/dev/null
	apt-get -q install --yes --no-install-recommends --no-remove qemu-user-static >/dev/null
fi

# The emulator does not always deliver the signals that preempt goroutines.
GODEBUG=asyncpreemptoff=1 GOARCH=s390x go test -vet=off -exec "$emulator -cpu max" -timeout 10m "${packages[@]/#/./internal/}"
