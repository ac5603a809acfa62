package main

import "strings"

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
