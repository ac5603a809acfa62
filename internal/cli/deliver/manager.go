package deliver

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/opencontainers/go-digest"
	"github.com/spf13/cobra"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/httpstream" //nolint:staticcheck // The port forwarding of client-go takes this type.
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/portforward"
	"k8s.io/client-go/transport"
	"k8s.io/client-go/transport/spdy"

	"github.com/collection-operator/collection-operator/internal/cli/kube"
	"github.com/collection-operator/collection-operator/internal/collection/render"
	"github.com/collection-operator/collection-operator/internal/platform/printable"
	"github.com/collection-operator/collection-operator/internal/platform/servingcert/keeper"
	"github.com/collection-operator/collection-operator/internal/source/upload"
)

const (
	// managerSelector selects the manager's pod.
	managerSelector = "component=manager"
	// artifactsPort is the name of the port of its archive server.
	artifactsPort = "artifacts"
	// maxAnswerBytes limits what is read of the manager's answer.
	maxAnswerBytes = 8 << 10
	// uploadAttempts is how often a manager that leads is looked for, at an interval of uploadInterval.
	uploadAttempts, uploadInterval = 10, time.Second
	// uploadTokenSeconds is how long a token of a service account is valid. The API server allows no shorter time.
	uploadTokenSeconds = 600
)

// managerFlags say how to reach the manager, and as whom.
type managerFlags struct {
	namespace, server, authority string
	serviceAccount, tokenFile    string
}

// addFlags adds them, and those of the connection to the cluster with which the command runs.
func (o *managerFlags) addFlags(command *cobra.Command, run func(cmd *cobra.Command, c *kube.Cluster, args []string) error) {
	kube.Command(command, run)
	flags := command.Flags()
	flags.StringVar(&o.namespace, "manager-namespace", render.DefaultSettings().ArtifactServer.Namespace, "namespace of the manager")
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

// managerServer is the manager's archive server.
type managerServer struct {
	url, token string
	transport  http.RoundTripper
}

// reach gets a token and connects to the manager. The caller calls stop.
func (o *managerFlags) reach(ctx context.Context, c *kube.Cluster) (manager *managerServer, stop func(), err error) {
	token, err := o.token(ctx, c)
	if err != nil {
		return nil, nil, err
	}
	trust, err := o.trust(ctx, c)
	if err != nil {
		return nil, nil, err
	}
	transport := &http.Transport{
		TLSClientConfig: trust, TLSHandshakeTimeout: 30 * time.Second, ExpectContinueTimeout: time.Minute, DisableKeepAlives: true,
		Proxy: http.ProxyFromEnvironment,
	}
	if o.server != "" {
		parsed, err := url.Parse(o.server)
		if err != nil || parsed.Scheme != "https" || parsed.Host == "" {
			return nil, nil, fmt.Errorf("--manager-url %q is not an https URL", o.server)
		}
		return &managerServer{url: strings.TrimSuffix(o.server, "/"), token: token, transport: transport}, func() {}, nil
	}
	pod, port, err := o.managerPod(ctx, c)
	if err != nil {
		return nil, nil, err
	}
	local, stop, err := forward(ctx, c, pod, port)
	if err != nil {
		return nil, nil, fmt.Errorf("connect to pod %s/%s: %w", pod.Namespace, pod.Name, err)
	}
	// A connection that is still open when the forwarding ends is reported as an error.
	transport.Proxy, transport.DisableKeepAlives = nil, true
	return &managerServer{url: fmt.Sprintf("https://127.0.0.1:%d", local), token: token, transport: transport}, stop, nil
}

// upload sends an archive for an OperatorCollection and returns its digest. It tries again while it reaches a manager that is not the leader.
func (m *managerServer) upload(ctx context.Context, archive string, oc kube.Resource) (digest.Digest, error) {
	file, err := os.Open(archive)
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
	var failure error
	attempts := wait.Backoff{Duration: uploadInterval, Steps: uploadAttempts}
	err = wait.ExponentialBackoffWithContext(ctx, attempts, func(ctx context.Context) (done bool, err error) {
		content := io.NewSectionReader(file, 0, info.Size())
		request, err := http.NewRequestWithContext(ctx, http.MethodPut, m.url+upload.Prefix+oc.Namespace+"/"+oc.Name, content)
		if err != nil {
			return false, err
		}
		request.ContentLength = info.Size()
		request.Header.Set("Authorization", "Bearer "+m.token)
		request.Header.Set(upload.DigestHeader, sum.String())
		// The archive is sent once the manager has accepted the request.
		request.Header.Set("Expect", "100-continue")
		status, err := m.send(request)
		if failure = err; status == http.StatusServiceUnavailable {
			return false, nil
		}
		return true, err
	})
	if failure != nil { // It says more than that no attempt is left.
		err = failure
	}
	if err != nil {
		return "", fmt.Errorf("upload %s: %w", archive, err)
	}
	return sum, nil
}

// send returns the status of the answer, and an error if the archive is not stored.
func (m *managerServer) send(request *http.Request) (status int, err error) {
	response, err := m.transport.RoundTrip(request)
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

// trust returns how the manager is verified.
func (o *managerFlags) trust(ctx context.Context, c *kube.Cluster) (*tls.Config, error) {
	trust := &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: x509.NewCertPool()}
	if o.authority != "" {
		bundle, err := os.ReadFile(o.authority)
		if err != nil {
			return nil, err
		}
		if !trust.RootCAs.AppendCertsFromPEM(bundle) {
			return nil, fmt.Errorf("%s has no certificate in PEM", o.authority)
		}
		return trust, nil
	}
	public, err := c.Core.ConfigMaps(o.namespace).Get(ctx, keeper.ConfigMap, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, fmt.Errorf("namespace %q has no ConfigMap %q: give the manager's namespace with --manager-namespace; the manager accepts uploads only if its --artifact-url is an https URL",
			o.namespace, keeper.ConfigMap)
	}
	if err != nil {
		return nil, err
	}
	trust.ServerName = public.Data[keeper.KeyServerName]
	if !trust.RootCAs.AppendCertsFromPEM([]byte(public.Data[keeper.KeyBundle])) || trust.ServerName == "" {
		return nil, fmt.Errorf("ConfigMap %s/%s does not have certificate authorities in the key %s and a name in the key %s",
			o.namespace, keeper.ConfigMap, keeper.KeyBundle, keeper.KeyServerName)
	}
	return trust, nil
}

// managerPod returns the pod of the manager that leads, and the port of its archive server.
func (o *managerFlags) managerPod(ctx context.Context, c *kube.Cluster) (*corev1.Pod, int32, error) {
	pods, err := c.Core.Pods(o.namespace).List(ctx, metav1.ListOptions{LabelSelector: managerSelector})
	if err != nil {
		return nil, 0, err
	}
	running := slices.DeleteFunc(pods.Items, func(pod corev1.Pod) bool {
		return pod.Status.Phase != corev1.PodRunning || pod.DeletionTimestamp != nil
	})
	if len(running) == 0 {
		return nil, 0, fmt.Errorf("no pod with the label %s runs in namespace %q: give the manager's namespace with --manager-namespace", managerSelector, o.namespace)
	}
	pod := slices.MinFunc(running, func(a, b corev1.Pod) int { return cmp.Compare(a.Name, b.Name) })
	for _, container := range pod.Spec.Containers {
		for _, port := range container.Ports {
			if port.Name == artifactsPort {
				return &pod, port.ContainerPort, nil
			}
		}
	}
	return nil, 0, fmt.Errorf("pod %s/%s has no port named %s: is it the manager's?", pod.Namespace, pod.Name, artifactsPort)
}

// forward makes a port of a pod available on a local port until stop is called.
func forward(ctx context.Context, c *kube.Cluster, pod *corev1.Pod, port int32) (local uint16, stop func(), err error) {
	dialer, err := podDialer(c.Config, c.Core.RESTClient().Post().Resource("pods").Namespace(pod.Namespace).Name(pod.Name).SubResource("portforward").URL())
	if err != nil {
		return 0, nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	ready, ended := make(chan struct{}), make(chan error, 1)
	forwarder, err := portforward.NewOnAddressesWithContext(ctx, dialer, []string{"127.0.0.1"}, []string{fmt.Sprintf("0:%d", port)}, ready, io.Discard, io.Discard)
	if err != nil {
		cancel()
		return 0, nil, err
	}
	go func() { ended <- forwarder.ForwardPorts() }()
	stop = func() {
		cancel()
		<-ended //nolint:errcheck // It was cancelled.
	}
	select {
	case <-ready:
	case err := <-ended:
		cancel()
		return 0, nil, cmp.Or(err, errors.New("the connection ended"))
	}
	ports, err := forwarder.GetPorts()
	if err != nil {
		stop()
		return 0, nil, err
	}
	return ports[0].Local, stop, nil
}

// podDialer uses WebSockets, or SPDY where the API server or a proxy before it does not support them.
func podDialer(config *rest.Config, target *url.URL) (httpstream.Dialer, error) {
	roundTripper, upgrader, err := spdy.RoundTripperFor(config)
	if err != nil {
		return nil, err
	}
	tunnel, err := portforward.NewSPDYOverWebsocketDialer(target, config)
	if err != nil {
		return nil, err
	}
	return portforward.NewFallbackDialer(tunnel, spdy.NewDialer(upgrader, &http.Client{Transport: roundTripper}, http.MethodPost, target), func(err error) bool {
		return httpstream.IsUpgradeFailure(err) || httpstream.IsHTTPSProxyError(err)
	}), nil
}

// token returns the token to upload with.
func (o *managerFlags) token(ctx context.Context, c *kube.Cluster) (string, error) {
	switch {
	case o.tokenFile != "":
		content, err := os.ReadFile(o.tokenFile)
		if err != nil {
			return "", err
		}
		return strings.TrimSpace(string(content)), nil
	case o.serviceAccount != "":
		seconds := int64(uploadTokenSeconds)
		request, err := c.Core.ServiceAccounts(c.Namespace).CreateToken(ctx, o.serviceAccount, &authenticationv1.TokenRequest{
			Spec: authenticationv1.TokenRequestSpec{Audiences: []string{upload.Audience}, ExpirationSeconds: &seconds},
		}, metav1.CreateOptions{})
		if err != nil {
			return "", fmt.Errorf("request a token of service account %q: %w", o.serviceAccount, err)
		}
		return request.Status.Token, nil
	case c.Config.Impersonate.UserName != "":
		return "", errors.New("the manager does not know impersonated users: give --service-account or --token-file instead of --as")
	}
	return bearerToken(ctx, c.Config)
}

// bearerToken returns the token with which a client with this configuration logs on, also if a plug-in gets it. It asks the
// client's own transport, without sending a request.
func bearerToken(ctx context.Context, config *rest.Config) (string, error) {
	clientTransport, err := config.TransportConfig()
	if err != nil {
		return "", err
	}
	var authorization string
	sender, err := transport.HTTPWrappersForConfig(clientTransport, roundTripper(func(request *http.Request) (*http.Response, error) {
		authorization = request.Header.Get("Authorization")
		return &http.Response{StatusCode: http.StatusOK, Body: http.NoBody, Request: request}, nil
	}))
	if err != nil {
		return "", err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://api.invalid/", nil)
	if err != nil {
		return "", err
	}
	response, err := sender.RoundTrip(request)
	if err != nil {
		return "", fmt.Errorf("get the token of the kubeconfig: %w", err)
	}
	if err := response.Body.Close(); err != nil {
		return "", err
	}
	token, ok := strings.CutPrefix(authorization, "Bearer ")
	if !ok {
		return "", errors.New("the kubeconfig has no token, only another credential: give --service-account or --token-file")
	}
	return token, nil
}

type roundTripper func(*http.Request) (*http.Response, error)

// RoundTrip implements http.RoundTripper.
func (f roundTripper) RoundTrip(request *http.Request) (*http.Response, error) { return f(request) }
