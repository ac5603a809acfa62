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

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/httpstream"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/portforward"
	"k8s.io/client-go/transport"
	"k8s.io/client-go/transport/spdy"

	"github.com/collection-operator/collection-operator/internal/cli/kube"
	"github.com/collection-operator/collection-operator/internal/platform/servingcert/keeper"
	"github.com/collection-operator/collection-operator/internal/source/upload"
)

const (
	// managerSelector selects the manager's pod.
	managerSelector = "component=manager"
	// artifactsPort is the name of the port of its archive server.
	artifactsPort = "artifacts"
)

// managerServer is the manager's archive server.
type managerServer struct {
	url       string
	transport http.RoundTripper
}

// reach connects to the manager. The caller calls stop.
func (o *pushOptions) reach(ctx context.Context, c *kube.Cluster, config *rest.Config) (manager *managerServer, stop func(), err error) {
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
		return &managerServer{url: strings.TrimSuffix(o.server, "/"), transport: transport}, func() {}, nil
	}
	pod, port, err := o.managerPod(ctx, c)
	if err != nil {
		return nil, nil, err
	}
	local, stop, err := forward(ctx, c, config, pod, port)
	if err != nil {
		return nil, nil, fmt.Errorf("connect to pod %s/%s: %w", pod.Namespace, pod.Name, err)
	}
	// A connection that is still open when the forwarding ends is reported as an error.
	transport.Proxy, transport.DisableKeepAlives = nil, true
	return &managerServer{url: fmt.Sprintf("https://127.0.0.1:%d", local), transport: transport}, stop, nil
}

// trust returns how the manager is verified.
func (o *pushOptions) trust(ctx context.Context, c *kube.Cluster) (*tls.Config, error) {
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
	public, err := c.Core.ConfigMaps(o.managerNamespace).Get(ctx, keeper.ConfigMap, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, fmt.Errorf("namespace %q has no ConfigMap %q: give the manager's namespace with --manager-namespace; the manager accepts uploads only if its --artifact-url is an https URL",
			o.managerNamespace, keeper.ConfigMap)
	}
	if err != nil {
		return nil, err
	}
	trust.ServerName = public.Data[keeper.KeyServerName]
	if !trust.RootCAs.AppendCertsFromPEM([]byte(public.Data[keeper.KeyBundle])) || trust.ServerName == "" {
		return nil, fmt.Errorf("ConfigMap %s/%s does not have certificate authorities in the key %s and a name in the key %s",
			o.managerNamespace, keeper.ConfigMap, keeper.KeyBundle, keeper.KeyServerName)
	}
	return trust, nil
}

// managerPod returns the pod of the manager that leads, and the port of its archive server.
func (o *pushOptions) managerPod(ctx context.Context, c *kube.Cluster) (*corev1.Pod, int32, error) {
	pods, err := c.Core.Pods(o.managerNamespace).List(ctx, metav1.ListOptions{LabelSelector: managerSelector})
	if err != nil {
		return nil, 0, err
	}
	running := slices.DeleteFunc(pods.Items, func(pod corev1.Pod) bool {
		return pod.Status.Phase != corev1.PodRunning || pod.DeletionTimestamp != nil
	})
	if len(running) == 0 {
		return nil, 0, fmt.Errorf("no pod with the label %s runs in namespace %q: give the manager's namespace with --manager-namespace", managerSelector, o.managerNamespace)
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
func forward(ctx context.Context, c *kube.Cluster, config *rest.Config, pod *corev1.Pod, port int32) (local uint16, stop func(), err error) {
	dialer, err := podDialer(config, c.Core.RESTClient().Post().Resource("pods").Namespace(pod.Namespace).Name(pod.Name).SubResource("portforward").URL())
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

// uploadTokenSeconds is how long a token of a service account is valid. The API server allows no shorter time.
const uploadTokenSeconds = 600

// token returns the token to upload with.
func (o *pushOptions) token(ctx context.Context, c *kube.Cluster, config *rest.Config) (string, error) {
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
	case config.Impersonate.UserName != "":
		return "", errors.New("the manager does not know impersonated users: give --service-account or --token-file instead of --as")
	}
	return bearerToken(ctx, config)
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
