// Command zoscb-encrypt makes the Secret of a credential for authors' tools that call a program of this name, on a workstation or in the
// pod of an operator. It encrypts nothing: see docs/credentials.md. Others use kubectl collection credential.
package main

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime/debug"
	"strings"

	"github.com/collection-operator/collection-operator/internal/sshsecret"
)

const usage = `Usage:
  zoscb-encrypt version
  zoscb-encrypt credential-secret -n NAME -u USER -s KEYFILE [-p]

Checks an SSH key and makes the Secret NAME with it, for the z/OS user ID USER. With -p, the environment variable PASSPHRASE has the
passphrase of the key. The Secret is applied with oc or kubectl, in the namespace of the kubeconfig. Without these programs, as in the pod
of an operator, its manifest is printed: pipe it into oc apply -f -.
`

// passphraseVariable has the passphrase of the key.
const passphraseVariable = "PASSPHRASE"

func main() {
	if err := run(os.Args[1:], os.Stdout, os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, "zoscb-encrypt:", err)
		os.Exit(1)
	}
}

func run(args []string, stdout, stderr io.Writer) error {
	if len(args) == 0 {
		return fmt.Errorf("no command is given\n\n%s", strings.TrimSpace(usage))
	}
	switch command, rest := args[0], args[1:]; command {
	case "version", "--version":
		_, err := fmt.Fprintln(stdout, "zoscb-encrypt", version())
		return err
	case "credential-secret":
		manifest, err := credentialSecret(rest, stderr)
		if err != nil {
			return err
		}
		return deliver(manifest, stdout, stderr)
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

// credentialSecret returns the manifest. What it tells about the key goes to stderr.
func credentialSecret(args []string, stderr io.Writer) ([]byte, error) {
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
	return sshsecret.Manifest(secret)
}

func readFile(path string, limit int64) ([]byte, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	return io.ReadAll(io.LimitReader(file, limit+1))
}

// deliver applies a manifest with the user's own rights, or prints it where there is no client.
func deliver(manifest []byte, stdout, stderr io.Writer) error {
	for _, program := range []string{"oc", "kubectl"} {
		path, err := exec.LookPath(program)
		if err != nil {
			continue
		}
		// Otherwise the client would keep a copy of the Secret in an annotation. A credential of this name is replaced, whoever has made it.
		apply := exec.Command(path, "apply", "--server-side", "--force-conflicts", "--field-manager=zoscb-encrypt", "-f", "-")
		apply.Stdin, apply.Stdout, apply.Stderr = bytes.NewReader(manifest), stdout, stderr
		if err := apply.Run(); err != nil {
			return fmt.Errorf("%s apply: %w", program, err)
		}
		return nil
	}
	_, err := stdout.Write(manifest)
	return err
}
