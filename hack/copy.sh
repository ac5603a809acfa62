#!/usr/bin/env bash
# Copies the files of this checkout, without those that git ignores, to a folder: hack/copy.sh FOLDER. What is in the folder goes.
set -euo pipefail

folder=$(realpath -m "$1")
cd "$(dirname "${BASH_SOURCE[0]}")/.."
rm -rf "$folder"
mkdir -p "$folder"
git ls-files -z --cached --others --exclude-standard | while IFS= read -r -d '' file; do
	[[ ! -e $file ]] || printf '%s\0' "$file"
done | tar -c --null -T - | tar -xC "$folder"
