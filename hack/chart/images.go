package main

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
)

// images are the default images of the chart.
type images struct{ manager, runtime image }

type image struct{ repository, tag, digest string }

// parseImage splits a name such as registry.example.com:5000/manager:v1@sha256:0f1e....
func parseImage(name string) image {
	name, digest, _ := strings.Cut(name, "@")
	repository, tag := name, ""
	if colon := strings.LastIndex(name, ":"); colon > strings.LastIndex(name, "/") {
		repository, tag = name[:colon], name[colon+1:]
	}
	return image{repository: repository, tag: tag, digest: digest}
}

var imageDigest = regexp.MustCompile(`^sha256:[a-f0-9]{64}$`)

// check returns why the images cannot be the defaults of a chart that is published.
func (i images) check(allowTags bool) error {
	return errors.Join(i.manager.check("image", allowTags), i.runtime.check("runtime-image", allowTags))
}

func (i image) check(flag string, allowTags bool) error {
	host, _, found := strings.Cut(i.repository, "/")
	switch {
	case !found || host != "localhost" && !strings.ContainsAny(host, ".:"):
		return fmt.Errorf("-%s: image %q names no registry, so that nodes would look it up in a public one: name it as registry.example.com/name@sha256:...", flag, i.repository)
	case i.digest != "" && !imageDigest.MatchString(i.digest):
		return fmt.Errorf("-%s: %s is no digest: name the image as %s@sha256:... with 64 digits", flag, i.digest, i.repository)
	case i.digest == "" && !allowTags:
		return fmt.Errorf("-%[1]s: image %[2]s has no digest: name it as %[2]s@sha256:..., or set -allow-tags (make: ALLOW_TAGS=true)", flag, i.repository)
	}
	return nil
}
