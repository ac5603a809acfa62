package deliver

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/collection-operator/collection-operator/internal/cli/kit"
	"github.com/collection-operator/collection-operator/internal/cli/kube"
	"github.com/collection-operator/collection-operator/internal/run/sshsecret"
)

// maxPassphraseBytes limits a passphrase.
const maxPassphraseBytes = 4 << 10

// credentialOptions are the flags of credential.
type credentialOptions struct {
	connection              *kube.Connection
	user, key, passphraseIn string
	passphraseStdin, apply  bool
}

func credentialCommand() *cobra.Command {
	o := &credentialOptions{}
	command := &cobra.Command{
		Use:   "credential NAME",
		Short: "Create the Secret with which playbooks log on to z/OS",
		Long: `Check an SSH key, and print the manifest of a Secret with it, or apply the Secret with --apply. The key is refused if ssh
cannot use it, or if the passphrase does not open it. What is known of its public key is printed to standard error.

Nothing is sent to z/OS. The public key must be in the user's ~/.ssh/authorized_keys there.`,
		Example: `  kubectl collection credential lpar1-credential --user IBMUSER --key ~/.ssh/id_ed25519 -n zos --apply

  # With a passphrase, and applied by another client
  kubectl collection credential lpar1-credential --user IBMUSER --key id_rsa --passphrase-file passphrase.txt | oc apply --server-side -f -`,
		Args: kit.Exactly(1),
		RunE: func(cmd *cobra.Command, args []string) error { return o.run(cmd, args[0]) },
	}
	o.connection = kube.NewConnectionAs(command, "kubeconfig-user")
	flags := command.Flags()
	flags.StringVar(&o.user, "user", "", "z/OS user ID that the key logs on as (required)")
	flags.StringVar(&o.key, "key", "", "file with the private key (required)")
	flags.StringVar(&o.passphraseIn, "passphrase-file", "", "file with the passphrase of the key")
	flags.BoolVar(&o.passphraseStdin, "passphrase-stdin", false, "read the passphrase of the key from standard input")
	flags.BoolVar(&o.apply, "apply", false, "create the Secret, or replace the credential in it")
	command.MarkFlagsMutuallyExclusive("passphrase-file", "passphrase-stdin")
	for _, name := range []string{"user", "key"} {
		_ = command.MarkFlagRequired(name) // The flag exists.
	}
	return command
}

func (o *credentialOptions) run(cmd *cobra.Command, name string) error {
	// Without a namespace, who applies the manifest decides.
	secret, key, err := o.secret(cmd.InOrStdin(), o.connection.Overrides.Context.Namespace, name)
	if err != nil {
		return err
	}
	fmt.Fprintf(cmd.ErrOrStderr(), "%s: %s\n", o.key, key)
	if o.apply {
		c, err := o.connection.Connect()
		if err != nil {
			return err
		}
		secret.Namespace = c.Namespace
		done, err := applyCredential(cmd.Context(), c, secret)
		if err == nil {
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "secret/%s %s\n", name, done)
		}
		return err
	}
	return sshsecret.Print(cmd.OutOrStdout(), secret)
}

func (o *credentialOptions) secret(stdin io.Reader, namespace, name string) (*corev1.Secret, *sshsecret.Key, error) {
	content, err := readLimited(o.key, sshsecret.MaxKeyBytes)
	if err != nil {
		return nil, nil, err
	}
	var passphrase []byte
	switch {
	case o.passphraseStdin:
		passphrase, err = io.ReadAll(io.LimitReader(stdin, maxPassphraseBytes))
	case o.passphraseIn != "":
		passphrase, err = readLimited(o.passphraseIn, maxPassphraseBytes)
	}
	if err != nil {
		return nil, nil, err
	}
	key, err := sshsecret.ParseKey(content, sshsecret.TrimPassphrase(passphrase))
	if errors.Is(err, sshsecret.ErrPassphraseMissing) {
		return nil, nil, fmt.Errorf("%s: %w with --passphrase-file or --passphrase-stdin", o.key, err)
	}
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", o.key, err)
	}
	secret, err := sshsecret.New(namespace, name, o.user, key)
	return secret, key, err
}

// readLimited reads a file, and one byte more than the limit of one that is too large.
func readLimited(path string, limit int64) ([]byte, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	return io.ReadAll(io.LimitReader(file, limit+1))
}

// applyCredential creates a Secret, or replaces the credential in one that has one already. It leaves other Secrets alone.
func applyCredential(ctx context.Context, c *kube.Cluster, secret *corev1.Secret) (done string, err error) {
	secrets := c.Core.Secrets(secret.Namespace)
	_, err = secrets.Create(ctx, secret, metav1.CreateOptions{FieldManager: kube.FieldManager})
	if !apierrors.IsAlreadyExists(err) {
		return "created", err
	}
	live, err := secrets.Get(ctx, secret.Name, metav1.GetOptions{})
	if err != nil {
		return "", err
	}
	if err := sshsecret.Replace(live, secret); err != nil {
		return "", err
	}
	_, err = secrets.Update(ctx, live, metav1.UpdateOptions{FieldManager: kube.FieldManager})
	return "replaced", err
}
