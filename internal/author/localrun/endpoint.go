package localrun

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	"github.com/collection-operator/collection-operator/internal/collection/render"
	"github.com/collection-operator/collection-operator/internal/run/endpoint"
)

// Login is how to reach the system without a ZosEndpoint, or what takes precedence over one.
type Login struct {
	// Host is [USER@]HOST[:PORT]. It may be empty if the files have the ZosEndpoint.
	Host string
	// Local runs on this machine, without a connection. Host is empty then.
	Local bool
	// Unreachable replaces the address by one at which nothing listens.
	Unreachable bool
	// KeyFile is a private key, Passphrase and Password may be empty. Without key and password, the first usual key of ~/.ssh is used.
	KeyFile              string
	Passphrase, Password []byte
	// KnownHosts is the file with the host keys; empty means that of ssh.
	KnownHosts string
}

// connect returns the endpoint of a run, as the manager would mount it, and the ZosEndpoint. Windows, hold, settle and limits of a
// ZosEndpoint do not apply: the author starts the run.
func connect(ctx context.Context, name string, l Login, declared *v2beta2.ZosEndpoint, secrets map[string]*corev1.Secret, key endpoint.Key) (
	render.Endpoint, *v2beta2.ZosEndpoint, error,
) {
	if declared == nil {
		if l.Host == "" && !l.Local {
			return render.Endpoint{}, nil, fmt.Errorf("no endpoint %q: give --host USER@HOST, --local, or a ZosEndpoint of this name in a file", name)
		}
		declared = &v2beta2.ZosEndpoint{}
	}
	declared = declared.DeepCopy()
	declared.Name = name
	s := &declared.Spec
	s.RunWindows, s.Hold, s.Settle, s.MaxConcurrentRuns = nil, "", nil, nil
	variables, err := render.Variables(s.Variables)
	if err != nil {
		return render.Endpoint{}, nil, fmt.Errorf("ZosEndpoint %s: %w", name, err)
	}
	l.override(s, variables)
	if l.Local {
		s.EndpointType = v2beta2.EndpointLocal
	}
	if s.EndpointType == v2beta2.EndpointLocal && l.Host == "" {
		return render.Endpoint{Name: name, Local: true, Variables: variables}, declared, nil
	}
	s.EndpointType = v2beta2.EndpointRemote
	e := render.Endpoint{Name: name, Variables: variables}
	if err := errors.Join(l.address(s, &e), l.credential(s.CredentialName, secrets, &e)); err != nil {
		return render.Endpoint{}, nil, err
	}
	e.Host, e.Port, e.HostKeys = s.Host, s.EffectivePort(), s.HostKeys
	if len(e.HostKeys) == 0 {
		if e.HostKeys, err = knownHostKeys(ctx, e.Host, e.Port, l.KnownHosts); err != nil {
			return render.Endpoint{}, nil, err
		}
	}
	user, _ := variables["ansible_user"].(string)
	if l.Unreachable {
		e.Host, e.Port = "127.0.0.1", 1
		removeAddress(variables)
	}
	e.CredentialID = key.Credential(cmp.Or(user, e.User), e.PrivateKey, e.Passphrase, e.Password)
	return e, declared, nil
}

// override removes what would take precedence over the flags: the address in variables, and host keys. Otherwise a run could change
// another system than the one that --host names.
func (l Login) override(s *v2beta2.ZosEndpointSpec, variables map[string]any) {
	if l.Host != "" || l.KnownHosts != "" {
		s.HostKeys = nil
	}
	if l.Host == "" && !l.Local {
		return
	}
	removeAddress(variables)
	if strings.Contains(l.Host, "@") {
		delete(variables, "ansible_user")
		delete(variables, "ansible_ssh_user")
	}
}

// removeAddress removes the variables that say where an endpoint is.
func removeAddress(variables map[string]any) {
	for _, name := range []string{"ansible_host", "ansible_ssh_host", "ansible_port", "ansible_ssh_port", "ansible_connection"} {
		delete(variables, name)
	}
}

// address sets host, port and user.
func (l Login) address(s *v2beta2.ZosEndpointSpec, e *render.Endpoint) error {
	if l.Host == "" {
		return nil
	}
	user, host, hasUser := strings.Cut(l.Host, "@")
	if !hasUser {
		user, host = "", l.Host
	}
	s.Host, s.Port = host, 0
	if name, port, err := net.SplitHostPort(host); err == nil {
		number, err := strconv.ParseUint(port, 10, 16)
		if err != nil || number == 0 {
			return fmt.Errorf("--host %s: %q is not a port", l.Host, port)
		}
		s.Host, s.Port = name, int32(number)
	}
	if s.Host == "" || strings.HasPrefix(s.Host, "-") {
		return fmt.Errorf("--host %q: want USER@HOST or USER@HOST:PORT", l.Host)
	}
	e.User = user
	return nil
}

// usualKeys are the private keys that ssh tries.
var usualKeys = []string{"id_ed25519", "id_ecdsa", "id_rsa"}

// UsualKey returns the private key in a home folder that is used if none is named, or "".
func UsualKey(home string) string {
	for _, name := range usualKeys {
		path := filepath.Join(home, ".ssh", name)
		if _, err := os.Stat(path); err == nil {
			return path
		}
	}
	return ""
}

// credential sets user, and key or password: those of the flags, or of the Secret, or the first key in ~/.ssh.
func (l Login) credential(name string, secrets map[string]*corev1.Secret, e *render.Endpoint) error {
	file := l.KeyFile
	if name != "" && secrets[name] == nil && file == "" && len(l.Password) == 0 {
		return fmt.Errorf("no Secret %q, which the ZosEndpoint names: give it in a file, or --key FILE or --password-env VARIABLE", name)
	}
	if secret := secrets[name]; secret != nil && file == "" && len(l.Password) == 0 {
		e.User = cmp.Or(e.User, strings.TrimSpace(string(secret.Data["username"])))
		e.PrivateKey, e.Passphrase, e.Password = endpoint.PrivateKey(secret), secret.Data["passphrase"], secret.Data["password"]
	} else if len(l.Password) > 0 && file == "" {
		e.Password = l.Password
	} else {
		if file == "" {
			home, _ := os.UserHomeDir()
			file = UsualKey(home)
		}
		if file == "" {
			return errors.New("no credential: give --key FILE or --password-env VARIABLE, or a ZosEndpoint with its Secret in a file")
		}
		content, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		e.PrivateKey, e.Passphrase = content, l.Passphrase
	}
	if _, inVariables := e.Variables["ansible_user"]; e.User == "" && !inVariables {
		return errors.New("no user: give --host USER@HOST, or username in the Secret of the ZosEndpoint")
	}
	return nil
}

// knownHostKeys returns the host keys that ssh knows of an address. Keys are always checked, as in a cluster.
func knownHostKeys(ctx context.Context, host string, port int32, file string) ([]string, error) {
	address := host
	if port != v2beta2.DefaultSSHPort {
		address = fmt.Sprintf("[%s]:%d", host, port)
	}
	args := []string{"-F", address}
	if file != "" {
		args = append(args, "-f", file)
	}
	// It fails if it finds none.
	out, _ := exec.CommandContext(ctx, "ssh-keygen", args...).Output() //nolint:gosec // The author's own host.
	var keys []string
	revoked := map[string]bool{}
	for line := range bytes.Lines(out) {
		fields := strings.Fields(string(line))
		if len(fields) >= 4 && fields[0] == "@revoked" {
			revoked[fields[2]+" "+fields[3]] = true
		}
		if len(fields) >= 3 && !strings.HasPrefix(fields[0], "#") && !strings.HasPrefix(fields[0], "@") {
			keys = append(keys, fields[1]+" "+fields[2])
		}
	}
	keys = slices.DeleteFunc(keys, func(key string) bool { return revoked[key] })
	if len(keys) == 0 {
		return nil, fmt.Errorf("the host key of %s is not known: log on with ssh once, or give --known-hosts FILE or hostKeys in a ZosEndpoint", address)
	}
	return keys, nil
}
