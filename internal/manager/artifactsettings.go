package manager

import (
	"errors"
	"fmt"
	"net"

	"github.com/spf13/pflag"

	"github.com/collection-operator/collection-operator/internal/collection/render"
	"github.com/collection-operator/collection-operator/internal/platform/servingcert"
)

// artifactSettings configure the server of the archives.
type artifactSettings struct {
	url, address, httpAddress string
	names                     []string
	// execUploads allows uploads into the manager's pod, and administratorsOnly other uploads by administrators alone.
	execUploads, administratorsOnly bool
	// uploadedBytes and uploadedBytesPerNamespace limit the other uploads.
	uploadedBytes, uploadedBytesPerNamespace int64
}

func (s *artifactSettings) addFlags(flags *pflag.FlagSet) {
	flags.StringVar(&s.address, "artifact-bind-address", ":8090", "address at which archives are served to the runtime pods, and uploads are accepted if artifact-url is an https URL")
	flags.StringVar(&s.url, "artifact-url", "", "URL at which the runtime pods reach artifact-bind-address (required); for an https URL the manager makes the certificate and its authority")
	flags.StringVar(&s.httpAddress, "artifact-http-bind-address", "", "address at which archives are also served without TLS if artifact-url is an https URL, for operators that an earlier version installed, which use port 80 of the same host; if empty, they are not")
	flags.StringArrayVar(&s.names, "serving-name", nil, "further DNS `name` or IP address of the serving certificate, in addition to the host of artifact-url; may be repeated")
	flags.Int64Var(&s.uploadedBytesPerNamespace, "max-uploaded-bytes-per-namespace", 512<<20, "maximum size in bytes of the archives of one namespace that were uploaded and are not imported; 0 means no limit")
	flags.Int64Var(&s.uploadedBytes, "max-uploaded-bytes", 1<<30, "maximum size in bytes of the archives of all namespaces that were uploaded and are not imported; 0 means no limit")
	flags.BoolVar(&s.administratorsOnly, "administrators-only-uploads", false, "accept uploads only from users who may also use administration.zoscb.ibm.com in the namespace, as policy collection-operator-administrators-only requires for changes of OperatorCollections")
	flags.BoolVar(&s.execUploads, "allow-exec-uploads", true, "import archives that were copied into the upload folder of the manager's pod, which needs pods/exec in the manager's namespace")
}

// apply validates the settings and sets what render needs of them.
func (s *artifactSettings) apply(r *render.Settings) error {
	if s.url == "" {
		return errors.New("--artifact-url is not set")
	}
	var errs []error
	port := func(flag, address string) int32 {
		number, err := portOf(address)
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", flag, err))
		}
		return number
	}
	r.ArtifactServer.Port = port("--artifact-bind-address", s.address)
	if s.httpAddress != "" {
		r.ArtifactServer.HTTPPort = port("--artifact-http-bind-address", s.httpAddress)
	}
	errs = append(errs, r.SetArtifactURL(s.url))
	if !s.tls(*r) {
		r.ArtifactServer.HTTPPort = 0
		return errors.Join(errs...)
	}
	for _, name := range s.names {
		if err := servingcert.CheckName(name); err != nil {
			errs = append(errs, fmt.Errorf("--serving-name: %w", err))
		}
	}
	return errors.Join(errs...)
}

func (*artifactSettings) tls(r render.Settings) bool { return r.ArtifactTLSURL != "" }

// portOf returns the port of a listen address. The port may be a service name.
func portOf(address string) (int32, error) {
	_, name, err := net.SplitHostPort(address)
	if err != nil {
		return 0, err
	}
	port, err := net.LookupPort("tcp", name)
	return int32(port), err // It is at most 65535.
}
