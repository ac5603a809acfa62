// Package encrypt is the program zoscb-encrypt.
package encrypt

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/collection-operator/collection-operator/internal/run/sshsecret"
)

const usage = `Usage:
  zoscb-encrypt version
  zoscb-encrypt credential-secret -n NAME -u USER -s KEYFILE [-p]

Checks an SSH key and makes the Secret NAME with it, for the z/OS user ID USER. With -p, the environment variable PASSPHRASE has the
passphrase of the key. The Secret is written with oc or kubectl, in the namespace of the kubeconfig. Without these programs, as in the pod
of an operator, its manifest is printed: pipe it into oc apply -f -.
`

// passphraseVariable has the passphrase of the key.
const passphraseVariable = "PASSPHRASE"

// Run runs the program with its arguments.
func Run(args []string, stdout, stderr io.Writer) error {
	if len(args) == 0 {
		return fmt.Errorf("no command is given\n\n%s", strings.TrimSpace(usage))
	}
	switch command, rest := args[0], args[1:]; command {
	case "version", "--version":
		_, err := fmt.Fprintln(stdout, "zoscb-encrypt", version())
		return err
	case "credential-secret":
		secret, err := credentialSecret(rest, stderr)
		if err != nil {
			return err
		}
		return deliver(secret, stdout, stderr)
	case "help", "-h", "--help":
		_, err := fmt.Fprint(stdout, usage)
		return err
	default:
		return fmt.Errorf("the command %q is not known\n\n%s", command, usage)
	}
}

func version() string {
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" && info.Main.Version != "(devel)" {
		return info.Main.Version
	}
	return "development"
}

// credentialSecret returns the Secret. What it tells about the key goes to stderr.
func credentialSecret(args []string, stderr io.Writer) (*corev1.Secret, error) {
	flags := flag.NewFlagSet("credential-secret", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	name, user, file := flags.String("n", "", ""), flags.String("u", "", ""), flags.String("s", "", "")
	encrypted := flags.Bool("p", false, "")
	if err := flags.Parse(args); err != nil || flags.NArg() > 0 || *file == "" {
		return nil, fmt.Errorf("-n, -u and -s are needed\n\n%s", usage)
	}
	var passphrase []byte
	if *encrypted {
		if passphrase = []byte(os.Getenv(passphraseVariable)); len(passphrase) == 0 {
			return nil, fmt.Errorf("-p is given, and the environment variable %s is not set: set it to the passphrase of the key", passphraseVariable)
		}
	}
	content, err := readFile(*file, sshsecret.MaxKeyBytes)
	if err != nil {
		return nil, err
	}
	key, err := sshsecret.ParseKey(content, passphrase)
	if errors.Is(err, sshsecret.ErrPassphraseMissing) {
		return nil, fmt.Errorf("%s: %w with -p and the environment variable %s", *file, err, passphraseVariable)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", *file, err)
	}
	secret, err := sshsecret.New("", *name, *user, key)
	if err != nil {
		return nil, err
	}
	fmt.Fprintf(stderr, "%s: %s\n", *file, key)
	return secret, nil
}

func readFile(path string, limit int64) ([]byte, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	return io.ReadAll(io.LimitReader(file, limit+1))
}

// deliver writes a Secret with the user's own rights, or prints it where there is no client.
func deliver(secret *corev1.Secret, stdout, stderr io.Writer) error {
	for _, program := range []string{"oc", "kubectl"} {
		if path, err := exec.LookPath(program); err == nil {
			return write(&client{path, stderr}, secret, stdout)
		}
	}
	return sshsecret.Print(stdout, secret)
}

// write creates a Secret, or replaces the credential in one that exists.
func write(c *client, secret *corev1.Secret, stdout io.Writer) error {
	// Apply on the server keeps no copy of the Secret in an annotation.
	args := []string{"apply", "--server-side", "--force-conflicts", "--field-manager=zoscb-encrypt", "-f", "-"}
	var found bytes.Buffer
	if err := c.run(nil, &found, "get", "secret", secret.Name, "--ignore-not-found", "-o", "json"); err != nil {
		return err
	}
	if found.Len() > 0 {
		live := &corev1.Secret{}
		if err := json.Unmarshal(found.Bytes(), live); err != nil {
			return fmt.Errorf("reading the Secret %q: %w", secret.Name, err)
		}
		if err := sshsecret.Replace(live, secret); err != nil {
			return err
		}
		secret, args = live, []string{"replace", "--field-manager=zoscb-encrypt", "-f", "-"}
	}
	manifest, err := sshsecret.Manifest(secret)
	if err != nil {
		return err
	}
	return c.run(manifest, stdout, args...)
}

// client is oc or kubectl.
type client struct {
	path   string
	stderr io.Writer
}

func (c *client) run(stdin []byte, stdout io.Writer, args ...string) error {
	command := exec.Command(c.path, args...)
	command.Stdin, command.Stdout, command.Stderr = bytes.NewReader(stdin), stdout, c.stderr
	if err := command.Run(); err != nil {
		return fmt.Errorf("%s %s: %w", filepath.Base(c.path), args[0], err)
	}
	return nil
}
