package registry

import (
	"crypto/subtle"
	"encoding/json"
	"fmt"
	"net/http"
	"path"
	"strconv"
	"sync/atomic"

	"github.com/opencontainers/go-digest"
)

// Image is one image of a registry: a manifest and the configuration that it names. Its layers are those of an image that the node has, and
// are not offered.
type Image struct {
	// Name without host, and Tag.
	Name, Tag string
	mediaType string
	manifest  []byte
	config    []byte
}

// Relabelled returns an image with another configuration, and so with another digest, than the one with this manifest and configuration.
func Relabelled(name, tag string, manifest, config []byte) (Image, error) {
	var list, fields map[string]any
	if err := json.Unmarshal(config, &fields); err != nil {
		return Image{}, fmt.Errorf("configuration: %w", err)
	}
	if err := json.Unmarshal(manifest, &list); err != nil {
		return Image{}, fmt.Errorf("manifest: %w", err)
	}
	descriptor, _ := list["config"].(map[string]any)
	mediaType, _ := list["mediaType"].(string)
	if descriptor == nil || mediaType == "" {
		return Image{}, fmt.Errorf("manifest of type %q has no configuration", mediaType)
	}
	fields["author"] = name
	config = must(json.Marshal(fields))
	descriptor["digest"], descriptor["size"] = digest.FromBytes(config), len(config)
	return Image{Name: name, Tag: tag, mediaType: mediaType, manifest: must(json.Marshal(list)), config: config}, nil
}

// Digest is that of the manifest, by which the image is pulled.
func (i Image) Digest() digest.Digest { return digest.FromBytes(i.manifest) }

// Private is a registry with one image for those who have the credentials: as much of the OCI Distribution Specification as a node needs to
// pull it.
type Private struct {
	Image              Image
	Username, Password string
	// Refused and Served count requests.
	Refused, Served atomic.Int32
}

func (p *Private) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	username, password, _ := r.BasicAuth()
	if username != p.Username || subtle.ConstantTimeCompare([]byte(password), []byte(p.Password)) != 1 {
		p.Refused.Add(1)
		w.Header().Set("WWW-Authenticate", `Basic realm="private"`)
		http.Error(w, `{"errors":[{"code":"UNAUTHORIZED","message":"authentication required"}]}`, http.StatusUnauthorized)
		return
	}
	p.Served.Add(1)
	content, mediaType := p.find(r.URL.Path)
	if content == nil {
		http.NotFound(w, r)
		return
	}
	w.Header().Set("Content-Type", mediaType)
	w.Header().Set("Content-Length", strconv.Itoa(len(content)))
	w.Header().Set("Docker-Content-Digest", digest.FromBytes(content).String())
	if r.Method != http.MethodHead {
		_, _ = w.Write(content)
	}
}

func (p *Private) find(url string) (content []byte, mediaType string) {
	base := "/v2/" + p.Image.Name
	switch url {
	case "/v2/":
		return []byte("{}"), "application/json"
	case path.Join(base, "manifests", p.Image.Tag), path.Join(base, "manifests", p.Image.Digest().String()):
		return p.Image.manifest, p.Image.mediaType
	case path.Join(base, "blobs", digest.FromBytes(p.Image.config).String()):
		return p.Image.config, "application/octet-stream"
	}
	return nil, ""
}
