// Package environment decides which variables of an operator's pod come from spec.runtime.envFrom. The keys of a ConfigMap or Secret
// are not known when a pod is rendered. So the pod gets them with a prefix, and the engine takes over those that are allowed.
package environment

import (
	"regexp"
	"slices"
	"strings"
)

const (
	// Prefix of the variables of spec.runtime.envFrom in the pod.
	Prefix = "ZOSCB_FROM_"

	// Marker is the variable that says that the variables of envFrom were taken over.
	Marker = "ZOSCB_ENVIRONMENT"
)

// own are the names, and beginnings of names, of variables that decide what runs in the pod, and with which rights.
var own = []string{
	"PATH", "HOME", "ENV", "IFS", "USER", "WATCH_NAMESPACE", "POD_NAME", "POD_UID", "OPERATOR_NAME", "OPERATOR_CONDITION_NAME",
	"LANG", "LC_ALL", "LOCPATH", "CDPATH", "PS4",
}

var ownPrefixes = []string{
	"ZOSCB_", "ANSIBLE_", "PYTHON", "RUNNER_", "LD_", "BASH", "SHELL", "NSS_WRAPPER_", "SSH_", "KUBE", "MAX_CONCURRENT_RECONCILES", "WORKER_",
	"GODEBUG", "GOTRACEBACK", "GCONV_PATH", "GLIBC_", "MALLOC_", "GIT_", "K8S_",
	"OPENSSL_", "XDG_", "PERL", "TINI_", "PIP_",
}

// allowed are variables that are allowed though they begin as others that are not: where packages come from, and whom pip trusts.
var allowed = []string{"PIP_INDEX_URL", "PIP_CERT"}

var name = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// Take returns the variables, NAME=VALUE, with those of envFrom under their own names, and the sorted names of those that are ignored:
// they are not allowed, or not names of variables. A variable that is set otherwise takes precedence, and is not reported. The result
// contains [Marker].
func Take(environ []string) (taken, ignored []string) {
	added := map[string]string{}
	set := map[string]bool{}
	for _, variable := range environ {
		key, value, _ := strings.Cut(variable, "=")
		given, isFrom := strings.CutPrefix(key, Prefix)
		switch {
		case !isFrom:
			taken = append(taken, variable)
			set[key] = true
		case !name.MatchString(given) || reserved(given):
			ignored = append(ignored, given)
		default:
			added[given] = value
		}
	}
	for key, value := range added {
		if !set[key] {
			taken = append(taken, key+"="+value)
		}
	}
	slices.Sort(taken)
	slices.Sort(ignored)
	return append(taken, Marker+"=taken"), slices.Compact(ignored)
}

// reserved ignores case: some programs do.
func reserved(key string) bool {
	key = strings.ToUpper(key)
	if slices.Contains(allowed, key) {
		return false
	}
	return slices.Contains(own, key) || slices.ContainsFunc(ownPrefixes, func(prefix string) bool { return strings.HasPrefix(key, prefix) })
}
