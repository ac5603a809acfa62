#!/bin/sh
# Installs the engine into a root file system.
#
#   install.sh DESTDIR [--engine-binary FILE] [--with-operator-sdk-util]
# --engine-binary installs the program built from cmd/engine. Without it, ansible-operator runs playbooks without a gate.
# --with-operator-sdk-util adds this project's operator_sdk.util collection, for images without the original.
set -eu

source=$(cd "$(dirname "$0")" && pwd)
destdir=${1:?usage: install.sh DESTDIR [--engine-binary FILE] [--with-operator-sdk-util]}
shift
engine=$destdir/opt/ansible/engine

copy_tree() {
	(cd "$source/$1" && find . -type f ! -name '*.pyc') | while read -r file; do
		install -D -m 0644 "$source/$1/$file" "$2/$file"
	done
}

# Mount points of writable volumes.
for folder in content collections dependencies home; do
	install -d -m 0775 "$destdir/opt/ansible/$folder"
done
install -d -m 0755 "$engine"
install -m 0644 "$source/entry.yml" "$source/env" "$source/inventory" "$engine"
install -m 0755 "$source/entrypoint" "$source/ssh" "$source/askpass" "$source/dependencies" "$engine"
rm -rf "$engine/vars_plugins" "$engine/callback_plugins" "$engine/python"
copy_tree vars_plugins "$engine/vars_plugins"
copy_tree callback_plugins "$engine/callback_plugins"
copy_tree python "$engine/python"

while [ $# -gt 0 ]; do
	case $1 in
	--engine-binary)
		install -D -m 0755 "${2:?--engine-binary needs a file}" "$engine/bin/engine"
		ln -sf engine "$engine/bin/ansible-runner"
		shift
		;;
	--with-operator-sdk-util)
		copy_tree operator_sdk_util "$destdir/usr/share/ansible/collections/ansible_collections/operator_sdk/util"
		;;
	*)
		echo "install.sh: unknown option $1" >&2
		exit 2
		;;
	esac
	shift
done
