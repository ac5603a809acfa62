package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"

	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/transport"

	"github.com/collection-operator/collection-operator/internal/source/upload"
)

// uploadTokenSeconds is how long a token of a service account is valid. The API server allows no shorter time.
const uploadTokenSeconds = 600

// token returns the token to upload with.
func (o *pushOptions) token(ctx context.Context, c *cluster, config *rest.Config) (string, error) {
	switch {
	case o.tokenFile != "":
		content, err := os.ReadFile(o.tokenFile)
		if err != nil {
			return "", err
		}
		return strings.TrimSpace(string(content)), nil
	case o.serviceAccount != "":
		seconds := int64(uploadTokenSeconds)
		request, err := c.core.ServiceAccounts(c.namespace).CreateToken(ctx, o.serviceAccount, &authenticationv1.TokenRequest{
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
