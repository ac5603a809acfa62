// Package engine has the files of the runtime image that run playbooks, for programs that run them elsewhere.
package engine

import "embed"

// Files are the engine's files, as install.sh finds them. Programs have no mode here: see [Executable].
//
//go:embed entry.yml env inventory entrypoint ssh askpass dependencies vars_plugins/*.py callback_plugins/*.py
//go:embed python/zoscb_engine/*.py python/zoscb_engine/dependencies/*.py python/zoscb_engine-1.0.dist-info/*
//go:embed operator_sdk_util/galaxy.yml operator_sdk_util/meta/*.yml operator_sdk_util/plugins/modules/*.py
var Files embed.FS

// Executable reports whether a file of Files is a program.
func Executable(name string) bool {
	switch name {
	case "entrypoint", "ssh", "askpass", "dependencies":
		return true
	}
	return false
}
