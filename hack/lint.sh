#!/usr/bin/env bash
# Runs every linter over all modules and the shell scripts. The Go linters are listed in .golangci.yml.
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.."
root=$PWD

install_shellcheck() {
	command -v shellcheck >/dev/null && return
	if [[ $(id -u) != 0 ]] || ! command -v apt-get >/dev/null; then
		echo "lint.sh: shellcheck is missing: install it with your package manager" >&2
		exit 1
	fi
	apt-get update -qq && apt-get install -y -qq --no-install-recommends shellcheck >/dev/null
}

shell_scripts() {
	git ls-files --cached --others --exclude-standard | while read -r file; do
		[[ -f $file ]] && head -c 64 "$file" | head -n 1 | grep -Eqa '^#!.*\b(ba)?sh\b' && echo "$file"
	done
	return 0
}

cache=${XDG_CACHE_HOME:-$HOME/.cache}/collection-operator
golangci_lint=$cache/golangci-lint-$(cat hack/tools/golangci-lint/go.sum <(go version) | sha256sum | cut -c 1-16)
if [[ ! -x $golangci_lint ]]; then
	echo "building golangci-lint, which takes a few minutes the first time"
	rm -f "$cache"/golangci-lint-*
	go build -C hack/tools/golangci-lint -o "$golangci_lint" github.com/golangci/golangci-lint/v2/cmd/golangci-lint
fi

install_shellcheck
mapfile -t scripts < <(shell_scripts)

failed=0
run() {
	echo "$1"
	shift
	"$@" || failed=1
}

# golangci-lint remembers results by the paths of files: in one folder, what it knows of a package counts for all clones.
copy=$cache/lint
mkdir -p "$copy"
exec 9>"$copy.lock"
flock 9
hack/copy.sh "$copy"
cd "$copy"
run "golangci-lint" "$golangci_lint" run ./...
cd hack/devcluster
run "golangci-lint in hack/devcluster" "$golangci_lint" run --config ../../.golangci.yml ./...
cd components/kubernetes-oldest
run "golangci-lint in hack/devcluster/components/kubernetes-oldest" "$golangci_lint" run --config ../../../../.golangci.yml ./...
cd ../../../monitoring
run "golangci-lint in hack/monitoring" "$golangci_lint" run --config ../../.golangci.yml ./...
cd ../chart
run "golangci-lint in hack/chart" "$golangci_lint" run --config ../../.golangci.yml ./...
cd "$root"
# SC2100 mistakes names with hyphens for subtractions.
run "shellcheck" shellcheck --exclude=SC2100 "${scripts[@]}"
exit "$failed"
