// Package images lists the container images that Kubernetes objects name, so that they can be copied to another registry.
package images

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/opencontainers/go-digest"
)

// List is a set of images. The zero value is empty.
type List struct {
	// named has each reference that was found, and digests what nodes pulled for those that are tags.
	named   map[string]bool
	digests map[string]map[digest.Digest]bool
	invalid map[string]bool
}

// reference is what registries accept at most: host, path, tag and digest. It keeps out text that a shell or YAML would read otherwise.
var reference = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._/-]*(:[0-9]+/[A-Za-z0-9._/-]+)?(:[A-Za-z0-9_][A-Za-z0-9._-]{0,127})?(@[a-z0-9]+:[a-f0-9]+)?$`)

// maxReference is the length of a reference in bytes: OCI's limit for a name, and room for tag and digest.
const maxReference = 512

// AddObject adds the images that an object names: those of its containers, relatedImages, spec.runtime.image, the setting runtime-image,
// and the variables RUNTIME_IMAGE and RELATED_IMAGE_*. It takes what Kubernetes, OLM and file-based catalogs have as JSON. Of a pod it also takes the digests of what
// its node pulled. CustomResourceDefinitions name no images.
func (l *List) AddObject(object map[string]any) {
	switch object["kind"] {
	case "CustomResourceDefinition":
	case "Pod":
		l.visit(object["spec"])
		l.addPulled(object)
	default:
		l.visit(object)
	}
}

func (l *List) visit(value any) {
	switch value := value.(type) {
	case []any:
		for _, element := range value {
			l.visit(element)
		}
	case map[string]any:
		for key, element := range value {
			text, isText := element.(string)
			switch {
			case isText && (key == "image" || key == "runtime-image" || key == "runtimeImage"):
				l.add(text)
			case isText && key == "value" && isImageVariable(value["name"]):
				l.add(text)
			default:
				l.visit(element)
			}
		}
	}
}

// isImageVariable reports whether a variable has the name that OLM expects of those with images, or that of the manager's variable.
func isImageVariable(name any) bool {
	text, _ := name.(string)
	return text == "RUNTIME_IMAGE" || strings.HasPrefix(text, "RELATED_IMAGE_")
}

func (l *List) add(image string) {
	into := &l.named
	switch {
	case image == "":
		return
	case len(image) > maxReference || !reference.MatchString(image):
		into = &l.invalid
	}
	if *into == nil {
		*into = map[string]bool{}
	}
	(*into)[image] = true
}

// addPulled adds the digests of what a node pulled for a pod. For an image that was loaded into the node, not pulled, a node knows none.
func (l *List) addPulled(pod map[string]any) {
	images := containerImages(pod["spec"], "initContainers", "containers")
	status, _ := pod["status"].(map[string]any)
	for _, key := range []string{"initContainerStatuses", "containerStatuses"} {
		statuses, _ := status[key].([]any)
		for _, element := range statuses {
			container, _ := element.(map[string]any)
			name, _ := container["name"].(string)
			id, _ := container["imageID"].(string)
			_, text, _ := strings.Cut(id, "@")
			if pulled := digest.Digest(text); pulled.Validate() == nil && images[name] != "" {
				l.pulled(images[name], pulled)
			}
		}
	}
}

// containerImages are the images of containers by name.
func containerImages(spec any, keys ...string) map[string]string {
	images := map[string]string{}
	fields, _ := spec.(map[string]any)
	for _, key := range keys {
		containers, _ := fields[key].([]any)
		for _, element := range containers {
			container, _ := element.(map[string]any)
			name, _ := container["name"].(string)
			images[name], _ = container["image"].(string)
		}
	}
	return images
}

func (l *List) pulled(image string, pulled digest.Digest) {
	if l.digests == nil {
		l.digests = map[string]map[digest.Digest]bool{}
	}
	if l.digests[image] == nil {
		l.digests[image] = map[digest.Digest]bool{}
	}
	l.digests[image][pulled] = true
}

// References returns the images, sorted: those that have a digest, or whose digest a node knows, by digest alone, and the others with the
// tag that they have.
func (l *List) References() []string {
	found := map[string]bool{}
	for image := range l.named {
		name, pinned, _ := strings.Cut(image, "@")
		switch {
		case IsPinned(image):
			found[withoutTag(name)+"@"+pinned] = true // Clients such as skopeo refuse a tag beside a digest.
		case len(l.digests[image]) > 0:
			for pulled := range l.digests[image] {
				found[withoutTag(name)+"@"+pulled.String()] = true
			}
		default:
			found[image] = true
		}
	}
	return slices.Sorted(maps.Keys(found))
}

// Problems returns a sentence for each image without a digest and each that is no reference, sorted.
func (l *List) Problems() []string {
	var problems []string
	for _, image := range l.References() {
		if !IsPinned(image) {
			problems = append(problems, fmt.Sprintf("%s has no digest: a tag may be another image tomorrow", image))
		}
	}
	for image := range l.invalid {
		problems = append(problems, fmt.Sprintf("%.80q is left out: it is no reference to an image", image))
	}
	slices.Sort(problems)
	return problems
}

// IsPinned reports whether a reference has a digest.
func IsPinned(image string) bool {
	_, text, _ := strings.Cut(image, "@")
	return digest.Digest(text).Validate() == nil
}

// withoutTag removes the tag, which is behind the last slash: a colon before that is of a port.
func withoutTag(image string) string {
	if tag := strings.LastIndexByte(image, ':'); tag > strings.LastIndexByte(image, '/') {
		return image[:tag]
	}
	return image
}
