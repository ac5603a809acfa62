package main

import (
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/collection-operator/collection-operator/internal/source/verify"
)

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
		Args: exactly(1),
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
