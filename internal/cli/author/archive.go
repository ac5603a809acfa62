package author

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/opencontainers/go-digest"
	"github.com/spf13/cobra"

	"github.com/collection-operator/collection-operator/internal/cli/kit"
	"github.com/collection-operator/collection-operator/internal/collection/findings"
	"github.com/collection-operator/collection-operator/internal/source/archive"
	"github.com/collection-operator/collection-operator/internal/source/verify"
)

func buildCommand() *cobra.Command {
	var output string
	var force bool
	command := &cobra.Command{
		Use:   "build PATH",
		Short: "Build the archive of a collection",
		Long: `Build the archive (tar.gz) of a collection's folder, with the content that ` + "`ansible-galaxy collection build`" + ` gives it:
MANIFEST.json, FILES.json, and every file that galaxy.yml's build_ignore does not leave out. The same folder gives the same
bytes. Prints the archive's path and its digest, which spec.digest of an OperatorCollection takes.

A collection that a cluster would refuse is not built: its problems are printed, and the exit code is 1.`,
		Example: `  # <namespace>-<name>-<version>.tar.gz in the current folder
  kubectl collection build ./zos-files

  # Into another folder, replacing an archive that exists there
  kubectl collection build ./zos-files --output dist --force`,
		Args: kit.Exactly(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return build(cmd, args[0], output, force)
		},
	}
	command.Flags().StringVar(&output, "output", ".", "file to write, or folder for <namespace>-<name>-<version>.tar.gz")
	command.Flags().BoolVar(&force, "force", false, "replace a file that exists")
	return command
}

func build(cmd *cobra.Command, folder, output string, force bool) error {
	info, err := os.Stat(folder)
	if err != nil {
		return err
	}
	if !info.IsDir() {
		return fmt.Errorf("%s is not a folder: build makes an archive of one", folder)
	}
	content, err := buildFolder(folder)
	if err != nil {
		return Refused(cmd, folder, err)
	}
	built, err := readSource(bytes.NewReader(content))
	if err != nil {
		return Refused(cmd, folder, err)
	}
	metadata := built.Collection.Galaxy
	if info, err := os.Stat(output); err == nil && info.IsDir() {
		output = filepath.Join(output, fmt.Sprintf("%s-%s-%s.tar.gz", metadata.Namespace, metadata.Name, metadata.Version))
	}
	// An interrupted build must not become part of the next one: files with such names are never built in.
	if err := writeFile(output, fmt.Sprintf("%s-%s-*.tar.gz", metadata.Namespace, metadata.Name), content, force); err != nil {
		return err
	}
	problems, _ := built.settings.Apply(built.Collection.Problems)
	if len(problems.Findings()) > 0 {
		fmt.Fprintf(cmd.ErrOrStderr(), "a cluster accepts it, with %s: see `%s lint %s`\n", problems.Count(), cmd.Root().DisplayName(), folder)
	}
	_, err = fmt.Fprintln(cmd.OutOrStdout(), output, built.Digest)
	return err
}

// writeFile writes a file as a whole or not at all. It is written under a name made from pattern first.
func writeFile(path, pattern string, content []byte, force bool) error {
	switch info, err := os.Lstat(path); {
	case err == nil && !info.Mode().IsRegular():
		return fmt.Errorf("%s exists and is not a file: choose another --output", path)
	case err == nil && !force:
		return fmt.Errorf("%s exists: remove it, or replace it with --force", path)
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return err
	}
	temp, err := os.CreateTemp(filepath.Dir(path), pattern)
	if err != nil {
		return err
	}
	defer os.Remove(temp.Name()) // After the rename there is no such file.
	_, err = temp.Write(content)
	if err := errors.Join(err, temp.Chmod(0o644), temp.Close()); err != nil {
		return err
	}
	return os.Rename(temp.Name(), path)
}

func signCommand() *cobra.Command {
	var keyFile, output string
	command := &cobra.Command{
		Use:   "sign ARCHIVE --key KEY.pem",
		Short: "Sign an archive",
		Long: `Sign an archive with a private key (RSA, ECDSA or Ed25519; PEM, not encrypted) as openssl does: RSA and ECDSA keys as
"openssl dgst -sha256 -sign", Ed25519 keys as "openssl pkeyutl -sign -rawin". The signature and the public key go into the
Secret that an OperatorCollection names in spec.signatureSecret.`,
		Example: `  kubectl collection sign acme-files-1.0.0.tar.gz --key key.pem
  kubectl collection sign acme-files-1.0.0.tar.gz --key <(openssl pkey -in encrypted.pem)`,
		Args: kit.Exactly(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if output == "" {
				output = args[0] + ".sig"
			}
			fingerprint, err := sign(args[0], keyFile, output)
			if err != nil {
				return err
			}
			fmt.Fprintf(cmd.OutOrStdout(), "%s: signed by %s\n", output, fingerprint)
			return nil
		},
	}
	command.Flags().StringVar(&keyFile, "key", "", "file with the private key")
	command.Flags().StringVar(&output, "output", "", "file to write the signature to (default: ARCHIVE.sig)")
	_ = command.MarkFlagRequired("key")
	return command
}

// sign returns the fingerprint of the public key.
func sign(archive, keyFile, output string) (string, error) {
	content, err := readSmallFile(keyFile)
	if err != nil {
		return "", err
	}
	key, err := verify.ParsePrivateKey(content)
	if err != nil {
		return "", fmt.Errorf("%s: %w", keyFile, err)
	}
	f, err := os.Open(archive)
	if err != nil {
		return "", err
	}
	defer f.Close()
	signature, fingerprint, err := verify.Sign(key, f)
	if err != nil {
		return "", fmt.Errorf("%s: %w", archive, err)
	}
	return fingerprint, os.WriteFile(output, signature, 0o644)
}

// maxSmallFile bounds keys and signatures.
const maxSmallFile = 1 << 20

func readSmallFile(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	content, err := io.ReadAll(io.LimitReader(f, maxSmallFile+1))
	if err == nil && len(content) > maxSmallFile {
		err = fmt.Errorf("%s has more than %d bytes: it is neither a key nor a signature", path, maxSmallFile)
	}
	return content, err
}

func verifyCommand() *cobra.Command {
	var keys, signatures []string
	var pinned string
	command := &cobra.Command{
		Use:   "verify ARCHIVE [--key PUB.pem --signature X.sig] [--digest sha256:...]",
		Short: "Verify the origin of an archive",
		Long: `Verify an archive as a cluster does: its detached signature with a public key (RSA, ECDSA or Ed25519, in PEM), or Ansible
Galaxy's GPG signature of its MANIFEST.json with a GPG key (both ASCII-armoured) and then every file that MANIFEST.json
vouches for, or its digest. With a signature and a digest, both must be right.

Exit codes are 0 if it is verified, 1 if it is not, and 2 if the command failed.`,
		Example: `  kubectl collection verify acme-files-1.0.0.tar.gz --key pub.pem --signature acme-files-1.0.0.tar.gz.sig
  kubectl collection verify acme-files-1.0.0.tar.gz --key galaxy.pub.asc --signature MANIFEST.json.asc
  kubectl collection verify acme-files-1.0.0.tar.gz --digest sha256:c6cca05f781b293f9ea34cd9799dd126596a4be2f90c7096e9eab718d27e39bd`,
		Args: kit.Exactly(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(keys)+len(signatures) == 0 && pinned == "" {
				return errors.New("nothing to verify with: give --key and --signature, or --digest")
			}
			evidence, err := readEvidence(append(keys, signatures...))
			if err != nil {
				return err
			}
			result, err := verifyFile(args[0], verify.Policy{Digest: digest.Digest(pinned), Evidence: evidence, Time: time.Now()})
			return report(cmd.OutOrStdout(), args[0], result, err)
		},
	}
	command.Flags().StringArrayVar(&keys, "key", nil, "file with a public key, in PEM or ASCII-armoured by GPG; may be repeated")
	command.Flags().StringArrayVar(&signatures, "signature", nil, "file with a detached signature; may be repeated")
	command.Flags().StringVar(&pinned, "digest", "", "the digest that the archive must have, sha256:<64 hexadecimal digits>")
	return command
}

// readEvidence returns nil if there are no files.
func readEvidence(files []string) (*verify.Evidence, error) {
	if len(files) == 0 {
		return nil, nil
	}
	data := map[string][]byte{}
	for _, file := range files {
		content, err := readSmallFile(file)
		if err != nil {
			return nil, err
		}
		data[file] = content
	}
	return verify.Recognize(data)
}

func verifyFile(path string, policy verify.Policy) (verify.Result, error) {
	actual, size, err := digestOf(path)
	if err != nil {
		return verify.Result{}, err
	}
	result, err := verify.Verify(policy, verify.Archive{
		Digest: actual,
		Size:   size,
		Open:   func() (io.ReadCloser, error) { return os.Open(path) },
		Manifest: func(content io.Reader) ([]byte, error) {
			return archive.ReadFile(content, archive.DefaultLimits, verify.ManifestFile)
		},
	})
	if err != nil || result.Method != verify.MethodGalaxySignature {
		return result, err
	}
	// The signature is for MANIFEST.json alone. Loading finds out whether the files are those that it lists.
	_, err = LoadSource(path)
	return result, err
}

// report tells what is known of the archive, and which errors are about it. All others kept it from being verified.
func report(w io.Writer, path string, result verify.Result, err error) error {
	var refused *archive.Error
	var problems findings.Problems
	switch {
	case err == nil:
		fmt.Fprintf(w, "%s is verified\nmethod: %s\n", path, result.Method)
		if result.Key != "" {
			fmt.Fprintf(w, "key:    %s\n", result.Key)
		}
		fmt.Fprintf(w, "digest: %s\n", result.Digest)
		return nil
	case errors.Is(err, verify.ErrInvalidSignature), errors.Is(err, verify.ErrDigestMismatch), errors.As(err, &problems),
		errors.As(err, &refused) && refused.Reason != archive.Unreadable:
		fmt.Fprintf(w, "%s is NOT verified: %v\n", path, err)
		return kit.ErrFindings
	}
	return err
}
