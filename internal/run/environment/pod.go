package environment

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Keys of the runtime ConfigMap with what the manager gives to all operators. Pods take over changes with the next run.
const (
	// KeyVariables has lines NAME=VALUE: variables of a proxy.
	KeyVariables = "environment"
	// KeyAuthorities has the certificate authorities, in PEM, that are trusted in addition to those of the image.
	KeyAuthorities = "trusted-ca.crt"
)

// The largest files that are read, in bytes.
const (
	maxVariablesBytes = 64 << 10
	maxBundleBytes    = 4 << 20
)

// bundleVariables are those by which programs find the authorities to trust.
var bundleVariables = []string{"SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "PIP_CERT", "GIT_SSL_CAINFO"}

// SystemBundles are where images have the authorities that they trust: Red Hat's, Debian's and SUSE's.
var SystemBundles = []string{"/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/certs/ca-certificates.crt", "/etc/ssl/ca-bundle.pem"}

// Pod knows where a pod has the files that its variables depend on.
type Pod struct {
	// RuntimeDir is where the runtime ConfigMap is mounted.
	RuntimeDir string
	// Bundle is the file that is written with all trusted authorities.
	Bundle string
	// SystemBundles are where the image has its authorities. The first that exists counts.
	SystemBundles []string
}

// PodOf returns the Pod of the variables that the engine's programs have.
func PodOf(lookup func(string) string) Pod {
	return Pod{
		RuntimeDir:    cmp.Or(lookup("ZOSCB_RUNTIME_DIR"), "/etc/zoscb/runtime"),
		Bundle:        filepath.Join(cmp.Or(lookup("ZOSCB_COLLECTIONS_DIR"), "/opt/ansible/collections"), KeyAuthorities),
		SystemBundles: SystemBundles,
	}
}

// Complete returns the variables with those that the manager gives to all operators, in place of those that it gave when this was called
// before. Variables that are set otherwise take precedence. With a proxy, NO_PROXY contains the addresses of the cluster. The error says
// what could not be read or written; the variables are valid nevertheless.
func (p Pod) Complete(environ []string) ([]string, error) {
	v := newVariables(environ)
	given, err := readLimited(filepath.Join(p.RuntimeDir, KeyVariables), maxVariablesBytes)
	for line := range strings.Lines(string(given)) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		if slices.Contains(proxyVariables, key) && !v.has(key) && !v.has(strings.ToLower(key)) {
			v.give(key, value)
			v.give(strings.ToLower(key), value)
		}
	}
	trusted, trustErr := p.writeBundle()
	if trusted {
		for _, key := range bundleVariables {
			if !v.has(key) {
				v.give(key, p.Bundle)
			}
		}
	}
	v.excludeCluster()
	return v.environ(), errors.Join(err, trustErr)
}

// writeBundle writes the authorities of the image and of the ConfigMap into one file, if the ConfigMap has any. It reports whether the
// file exists: if it cannot be written, an earlier one counts.
func (p Pod) writeBundle() (bool, error) {
	added, err := readLimited(filepath.Join(p.RuntimeDir, KeyAuthorities), maxBundleBytes)
	if err != nil || len(added) == 0 {
		return false, err
	}
	var bundle []byte
	for _, path := range p.SystemBundles {
		if bundle, err = readLimited(path, maxBundleBytes); err != nil {
			return false, err
		}
		if len(bundle) > 0 {
			break
		}
	}
	bundle = slices.Concat(bundle, []byte("\n"), added)
	if present, err := os.ReadFile(p.Bundle); err == nil && bytes.Equal(present, bundle) {
		return true, nil
	}
	err = replace(p.Bundle, bundle)
	_, missing := os.Stat(p.Bundle)
	return missing == nil, err
}

// replace writes a file so that readers see the earlier or the new content.
func replace(path string, content []byte) error {
	temporary, err := os.CreateTemp(filepath.Dir(path), ".trusted-*")
	if err != nil {
		return err
	}
	_, err = temporary.Write(content)
	// The container for dependencies and the operator may have different user IDs of the same group.
	err = errors.Join(err, temporary.Chmod(0o664), temporary.Close())
	if err == nil {
		err = os.Rename(temporary.Name(), path)
	}
	if err != nil {
		_ = os.Remove(temporary.Name())
	}
	return err
}

// readLimited returns nil if the file does not exist.
func readLimited(path string, limit int64) ([]byte, error) {
	file, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer file.Close()
	content, err := io.ReadAll(io.LimitReader(file, limit+1))
	if err == nil && int64(len(content)) > limit {
		return nil, fmt.Errorf("%s is larger than %d bytes", path, limit)
	}
	return content, err
}
