// Package keeper keeps the manager's serving certificate in a Secret: the leader rotates it, and all managers serve what the
// Secret has.
package keeper

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/collection-operator/collection-operator/internal/platform/servingcert"
)

const (
	// Secret in the manager's namespace has the certificate, the CAs and their keys.
	Secret = "collection-operator-serving-certificate"
	// ConfigMap in the manager's namespace has what clients need to verify the manager.
	ConfigMap = "collection-operator-ca"
	// KeyBundle of the ConfigMap has the CAs, in PEM.
	KeyBundle = "ca.crt"
	// KeyServerName of the ConfigMap has the name that the certificate is verified for.
	KeyServerName = "serverName"

	// maxInterval is the longest time between two readings of the Secret.
	maxInterval = time.Minute
)

// Keeper is a Runnable of all managers. Its other methods are safe for concurrent use.
type Keeper struct {
	// Client writes.
	Client client.Writer
	// Reader reads live objects.
	Reader client.Reader
	// Namespace of the manager.
	Namespace string
	// ServerName is the name by which clients know the server.
	ServerName string
	// Settings of the certificates. Names includes ServerName.
	Settings servingcert.Settings
	// Elected is closed when this manager is the leader.
	Elected <-chan struct{}
	// Changed is called when the bundle has changed since the manager started. It may be nil.
	Changed func()

	current atomic.Pointer[servingcert.State]
}

// NeedLeaderElection implements manager.LeaderElectionRunnable.
func (*Keeper) NeedLeaderElection() bool { return false }

// Start reads the Secret, and rotates the certificate in the leader, until ctx ends.
func (k *Keeper) Start(ctx context.Context) error {
	log := ctrl.LoggerFrom(ctx).WithName("serving-certificate")
	var last string
	interval := min(maxInterval, k.Settings.Overlap/4)
	elected := k.Elected
	for {
		err := k.sync(ctx)
		if err != nil && ctx.Err() == nil && err.Error() != last {
			log.Error(err, "cannot keep the certificate with which archives are served, retrying")
		}
		if last = ""; err != nil {
			last = err.Error()
		}
		next := wait.Jitter(interval, 0.1)
		if k.current.Load() == nil { // Nobody can be served.
			next = min(next, time.Second)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-elected:
			elected = nil
		case <-time.After(next):
		}
	}
}

func (k *Keeper) leads() bool {
	select {
	case <-k.Elected:
		return true
	default:
		return false
	}
}

// sync uses the state of the Secret. The leader rotates it first.
func (k *Keeper) sync(ctx context.Context) error {
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: k.Namespace, Name: Secret}}
	err := k.Reader.Get(ctx, client.ObjectKeyFromObject(secret), secret)
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("reading Secret %q in namespace %q: %w", Secret, k.Namespace, err)
	}
	exists := err == nil
	if !k.leads() {
		if !exists {
			return fmt.Errorf("the Secret %q in namespace %q does not exist yet: waiting for the leader to create it", Secret, k.Namespace)
		}
		state, err := servingcert.Parse(secret.Data)
		if err != nil {
			return fmt.Errorf("the Secret %q in namespace %q is not valid: waiting for the leader to replace it: %w", Secret, k.Namespace, err)
		}
		k.use(state)
		return nil
	}
	state, err := k.rotate(ctx, secret, exists)
	if err != nil {
		return err
	}
	k.use(state)
	return k.publish(ctx, state)
}

// rotate writes the Secret if anything is due. A Secret that is not valid is replaced: all clients get the new CA.
func (k *Keeper) rotate(ctx context.Context, secret *corev1.Secret, exists bool) (*servingcert.State, error) {
	log := ctrl.LoggerFrom(ctx).WithName("serving-certificate")
	state := &servingcert.State{}
	if exists {
		parsed, err := servingcert.Parse(secret.Data)
		if err != nil {
			log.Error(err, "the Secret is not valid and is replaced", "namespace", k.Namespace, "name", Secret)
		} else {
			state = parsed
		}
	}
	changes, err := state.Rotate(time.Now(), k.Settings)
	if err != nil {
		return nil, fmt.Errorf("rotating the certificate of the archives: %w", err)
	}
	if len(changes) == 0 {
		return state, nil
	}
	secret.Data = state.Data()
	if exists {
		err = k.Client.Update(ctx, secret) // It fails if another manager has written since.
	} else {
		err = k.Client.Create(ctx, secret)
	}
	if err != nil {
		return nil, fmt.Errorf("writing Secret %q in namespace %q: %w", Secret, k.Namespace, err)
	}
	log.Info("rotated the certificate of the archives", "changes", strings.Join(changes, ", "), "expires", state.Expires())
	return state, nil
}

// publish writes the ConfigMap with which other clients than operators verify the server.
func (k *Keeper) publish(ctx context.Context, state *servingcert.State) error {
	live := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: k.Namespace, Name: ConfigMap}}
	err := k.Reader.Get(ctx, client.ObjectKeyFromObject(live), live)
	exists := err == nil
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("reading ConfigMap %q in namespace %q: %w", ConfigMap, k.Namespace, err)
	}
	data := maps.Clone(live.Data)
	if data == nil {
		data = map[string]string{}
	}
	data[KeyBundle], data[KeyServerName] = string(state.Bundle()), k.ServerName
	if equality.Semantic.DeepEqual(data, live.Data) {
		return nil
	}
	live.Data = data
	if exists {
		err = k.Client.Update(ctx, live)
	} else {
		err = k.Client.Create(ctx, live)
	}
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("writing ConfigMap %q in namespace %q: %w", ConfigMap, k.Namespace, err)
	}
	return nil
}

func (k *Keeper) use(state *servingcert.State) {
	before := k.current.Swap(state)
	if before != nil && !bytes.Equal(before.Bundle(), state.Bundle()) && k.Changed != nil {
		k.Changed()
	}
}

var errNone = errors.New("the manager has no serving certificate yet: the leader creates it")

// Ready implements healthz.Checker.
func (k *Keeper) Ready(*http.Request) error {
	if k.current.Load() == nil {
		return errNone
	}
	return nil
}

// Bundle returns the CAs that clients trust, in PEM. It is empty until the Secret was read.
func (k *Keeper) Bundle() string {
	if state := k.current.Load(); state != nil {
		return string(state.Bundle())
	}
	return ""
}

// Expires returns when the certificate expires that is served, or the zero time.
func (k *Keeper) Expires() time.Time {
	if state := k.current.Load(); state != nil {
		return state.Expires()
	}
	return time.Time{}
}

// ServerConfig returns the TLS configuration of the server. It always serves the present certificate.
func (k *Keeper) ServerConfig() *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS12,
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
			if state := k.current.Load(); state != nil {
				return state.Certificate(), nil
			}
			return nil, errNone
		},
	}
}

// ClientConfig returns the TLS configuration of a client of another manager. It trusts the present bundle, and nothing else,
// and expects a certificate for ServerName, whatever the address is.
func (k *Keeper) ClientConfig() *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS12, ServerName: k.ServerName,
		// VerifyConnection verifies instead, since the bundle changes.
		InsecureSkipVerify: true,
		VerifyConnection: func(connection tls.ConnectionState) error {
			state := k.current.Load()
			if state == nil {
				return errNone
			}
			options := x509.VerifyOptions{DNSName: k.ServerName, Roots: state.Pool(), Intermediates: x509.NewCertPool()}
			for _, certificate := range connection.PeerCertificates[1:] {
				options.Intermediates.AddCert(certificate)
			}
			_, err := connection.PeerCertificates[0].Verify(options)
			return err
		},
	}
}
