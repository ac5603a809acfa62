package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/opencontainers/go-digest"
	"github.com/spf13/cobra"

	"github.com/collection-operator/collection-operator/internal/collection/findings"
	"github.com/collection-operator/collection-operator/internal/source/archive"
	"github.com/collection-operator/collection-operator/internal/source/verify"
)

func verifyCommand() *cobra.Command {
	var keys, signatures []string
	var pinned string
	command := &cobra.Command{
		Use:   "verify ARCHIVE [--key PUB.pem --signature X.sig] [--digest sha256:...]",
		Short: "Verify where an archive comes from",
		Long: `Verify an archive as a cluster does: its detached signature with a public key (RSA, ECDSA or Ed25519, in PEM), or Ansible
Galaxy's GPG signature of its MANIFEST.json with a GPG key (both ASCII-armoured) and then every file that MANIFEST.json
vouches for, or its digest. With a signature and a digest, both must be right.

Exit code: 0 verified, 1 not verified, 2 it could not be tried.`,
		Example: `  kubectl collection verify acme-files-1.0.0.tar.gz --key pub.pem --signature acme-files-1.0.0.tar.gz.sig
  kubectl collection verify acme-files-1.0.0.tar.gz --key galaxy.pub.asc --signature MANIFEST.json.asc
  kubectl collection verify acme-files-1.0.0.tar.gz --digest sha256:c6cca05f781b293f9ea34cd9799dd126596a4be2f90c7096e9eab718d27e39bd`,
		Args: exactly(1),
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
	_, err = loadSource(path)
	return result, err
}

func digestOf(path string) (archive digest.Digest, size int64, err error) {
	f, err := os.Open(path)
	if err != nil {
		return "", 0, err
	}
	defer f.Close()
	digester := digest.SHA256.Digester()
	size, err = io.Copy(digester.Hash(), f)
	return digester.Digest(), size, err
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
		return errFindings
	}
	return err
}
