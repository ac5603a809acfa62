package deliver

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/opencontainers/go-digest"
	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	"github.com/collection-operator/collection-operator/internal/cli/kit"
	"github.com/collection-operator/collection-operator/internal/cli/kube"
	"github.com/collection-operator/collection-operator/internal/collection/render"
	"github.com/collection-operator/collection-operator/internal/platform/printable"
	"github.com/collection-operator/collection-operator/internal/source/upload"
)

const (
	// maxAnswerBytes limits what is read of the manager's answer.
	maxAnswerBytes = 8 << 10
	// uploadAttempts is how often a manager that leads is looked for, at an interval of uploadInterval.
	uploadAttempts, uploadInterval = 10, time.Second
)

// pushOptions are the flags of push.
type pushOptions struct {
	connection                                 *kube.Connection
	managerNamespace, server, authority        string
	serviceAccount, tokenFile, archive, target string
	wait                                       bool
	timeout                                    time.Duration
}

func pushCommand() *cobra.Command {
	o := &pushOptions{}
	command := &cobra.Command{
		Use:   "push ARCHIVE OPERATORCOLLECTION",
		Short: "Upload the archive of an OperatorCollection",
		Long: `Upload an archive for an OperatorCollection without a collectionURL, wait until it is imported, and print its digest. An
archive that was uploaded before is replaced.

You need the right to update the OperatorCollection, and a token: that of the kubeconfig, or one that --service-account or
--token-file gives. Without --server, the connection is forwarded by the API server, for which you need the right to create
pods/portforward in the manager's namespace. The manager is verified with the authorities in its ConfigMap collection-operator-ca.

Exit codes are 0 if the archive is imported, 1 if it was uploaded and cannot be imported, and 2 if it was not uploaded or the
result is unknown.`,
		Example: `  kubectl collection push example-zos_users-1.0.0.tar.gz users -n demo

  # With a client certificate in the kubeconfig
  kubectl collection push example-zos_users-1.0.0.tar.gz users -n demo --service-account uploader`,
		Args: kit.Exactly(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			o.archive, o.target = args[0], args[1]
			return o.run(cmd)
		},
	}
	o.connection = kube.NewConnection(command)
	o.addManager(command)
	command.Flags().BoolVar(&o.wait, "wait", true, "wait until the archive is imported")
	command.Flags().DurationVar(&o.timeout, "timeout", 5*time.Minute, "longest time to wait; 0 means no limit")
	return command
}

// addManager adds the flags that say how to reach the manager, and as whom.
func (o *pushOptions) addManager(command *cobra.Command) {
	flags := command.Flags()
	flags.StringVar(&o.managerNamespace, "manager-namespace", render.DefaultSettings().ArtifactServer.Namespace, "namespace of the manager")
	flags.StringVar(&o.server, "manager-url", "", "https URL at which the manager's archive server can be reached, instead of a forwarded connection")
	flags.StringVar(&o.authority, "manager-certificate-authority", "", "file with the certificate authorities to verify the manager with, for its host in --manager-url, instead of those in its ConfigMap")
	flags.StringVar(&o.serviceAccount, "service-account", "", "upload as this service account of the namespace, with a token that only the manager accepts")
	flags.StringVar(&o.tokenFile, "token-file", "", "file with the token to upload with")
	command.MarkFlagsMutuallyExclusive("service-account", "token-file")
	command.PreRunE = func(*cobra.Command, []string) error {
		if o.authority != "" && o.server == "" {
			return errors.New("--manager-certificate-authority needs --manager-url")
		}
		return nil
	}
}

func (o *pushOptions) run(cmd *cobra.Command) error {
	c, err := o.connection.Connect()
	if err != nil {
		return err
	}
	ctx, cancel := kit.WithTimeout(cmd.Context(), o.timeout)
	defer cancel()
	manager, token, stop, err := o.prepare(ctx, c)
	if err != nil {
		return err
	}
	defer stop()
	oc := kube.OperatorCollectionOf(c.Namespace, o.target)
	pushed, err := o.upload(ctx, manager, token, oc)
	if err != nil {
		return err
	}
	fmt.Fprintln(cmd.OutOrStdout(), pushed)
	if !o.wait {
		return nil
	}
	return awaitImport(ctx, c, cmd.ErrOrStderr(), oc, pushed)
}

// prepare returns the manager to upload to, and the token to upload with.
func (o *pushOptions) prepare(ctx context.Context, c *kube.Cluster) (manager *managerServer, token string, stop func(), err error) {
	config, err := o.connection.RESTConfig()
	if err != nil {
		return nil, "", nil, err
	}
	if token, err = o.token(ctx, c, config); err != nil {
		return nil, "", nil, err
	}
	manager, stop, err = o.reach(ctx, c, config)
	return manager, token, stop, err
}

// upload sends the archive and returns its digest. It tries again while it reaches a manager that is not the leader.
func (o *pushOptions) upload(ctx context.Context, manager *managerServer, token string, oc kube.Resource) (digest.Digest, error) {
	file, err := os.Open(o.archive)
	if err != nil {
		return "", err
	}
	defer file.Close()
	sum, err := digest.SHA256.FromReader(file)
	if err != nil {
		return "", err
	}
	info, err := file.Stat()
	if err != nil {
		return "", err
	}
	for attempt := 1; ; attempt++ {
		content := io.NewSectionReader(file, 0, info.Size())
		request, err := http.NewRequestWithContext(ctx, http.MethodPut, manager.url+upload.Prefix+oc.Namespace+"/"+oc.Name, content)
		if err != nil {
			return "", err
		}
		request.ContentLength = info.Size()
		request.Header.Set("Authorization", "Bearer "+token)
		request.Header.Set(upload.DigestHeader, sum.String())
		// The archive is sent once the manager has accepted the request.
		request.Header.Set("Expect", "100-continue")
		status, err := send(manager, request)
		if err == nil {
			return sum, nil
		}
		if status != http.StatusServiceUnavailable || attempt == uploadAttempts {
			return "", fmt.Errorf("upload %s: %w", o.archive, err)
		}
		select {
		case <-ctx.Done():
			return "", fmt.Errorf("upload %s: %w", o.archive, err)
		case <-time.After(uploadInterval):
		}
	}
}

// send returns the status of the answer, and an error if the archive is not stored.
func send(manager *managerServer, request *http.Request) (status int, err error) {
	response, err := manager.transport.RoundTrip(request)
	if err != nil {
		return 0, err
	}
	defer response.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(response.Body, maxAnswerBytes))
	if err != nil {
		return 0, err
	}
	if response.StatusCode != http.StatusCreated {
		return response.StatusCode, fmt.Errorf("the manager answered %s: %s", response.Status, printable.Escape(strings.TrimSpace(string(answer))))
	}
	return response.StatusCode, nil
}

// awaitImport waits until the archive is imported, or cannot be without a change. A status that does not consider the upload, or
// the spec, says nothing about it.
func awaitImport(ctx context.Context, c *kube.Cluster, w io.Writer, r kube.Resource, pushed digest.Digest) error {
	var result error
	last := "it is not imported yet"
	err := c.Follow(ctx, r, func(object *unstructured.Unstructured) bool {
		if object == nil {
			result = fmt.Errorf("%s was deleted", r)
			return true
		}
		var oc v2beta2.OperatorCollection
		if result = runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, &oc); result != nil {
			return true
		}
		imported := meta.FindStatusCondition(oc.Status.Conditions, v2beta2.ConditionImported)
		if imported == nil || oc.Status.ObservedUpload != pushed.String() || oc.Status.ObservedGeneration != oc.Generation {
			return false
		}
		if imported.Status == metav1.ConditionTrue {
			return oc.Status.Artifact != nil && oc.Status.Artifact.Digest == pushed.String()
		}
		last = printable.Escape(imported.Reason + ": " + imported.Message)
		if meta.IsStatusConditionTrue(oc.Status.Conditions, v2beta2.ConditionStalled) {
			fmt.Fprintf(w, "%s: %s\n", r, last)
			result = kit.ErrFindings
			return true
		}
		return false
	})
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return fmt.Errorf("%s: timed out: the archive was uploaded, but %s", r, last)
	}
	return errors.Join(err, result)
}
