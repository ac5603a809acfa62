package model

import (
	"bytes"
	"cmp"
	"encoding/base64"
	"regexp"
	"slices"
	"strings"

	"github.com/collection-operator/collection-operator/internal/collection/findings"
)

// maxIconBytes is the size up to which an icon does no harm to the catalog that carries it.
const maxIconBytes = 100 << 10

// ShownIconTypes are the media types that OperatorHub shows. A ClusterServiceVersion with another one is refused.
var ShownIconTypes = []string{"image/png", "image/jpeg", "image/gif", "image/svg+xml"}

var (
	imageType = regexp.MustCompile(`^image/[a-z0-9.+-]+$`)
	// svgRoot is the beginning of an SVG document: its root element after declarations and comments.
	svgRoot = regexp.MustCompile(`(?is)^(\xef\xbb\xbf)?\s*(<\?.*?\?>\s*|<!--.*?-->\s*|<!doctype[^>\[]*(\[.*?\])?\s*>\s*)*<(\w+:)?svg[\s>/]`)
)

// readIcons drops icons that cannot be shown: they do no harm.
func readIcons(v findings.Value) []Icon {
	var icons []Icon
	for _, item := range v.List() {
		m, ok := item.Mapping()
		if !ok {
			continue
		}
		m.WarnUnknown(iconKeys...)
		if icon, ok := readIcon(m.Get("base64data"), m.Get("mediatype")); ok {
			icons = append(icons, icon)
		}
	}
	return icons
}

func readIcon(data, mediaType findings.Value) (icon Icon, ok bool) {
	missing := false
	for _, key := range []findings.Value{data, mediaType} {
		if key.Blank() {
			key.Report(ruleIconKeys, "is required; the icon is left out")
			missing = true
		}
	}
	icon = Icon{
		Base64Data: strings.Join(strings.Fields(data.Text()), ""),
		MediaType:  bareMediaType(mediaType.Text()),
	}
	if missing {
		return icon, false
	}
	content, err := base64.StdEncoding.DecodeString(icon.Base64Data)
	switch {
	case err != nil || icon.Base64Data == "":
		data.Report(ruleIconData, "is not base64 text; the icon is left out")
		return icon, false
	case !imageType.MatchString(icon.MediaType):
		mediaType.Report(ruleIconType, "must be the media type of an image, such as image/svg+xml; the icon is left out")
		return icon, false
	}
	if !slices.Contains(ShownIconTypes, icon.MediaType) {
		mediaType.Report(ruleIconType, "%s is not shown in OperatorHub; use one of %s", icon.MediaType, strings.Join(ShownIconTypes, ", "))
	}
	sniffed := icon.MediaType == "image/webp" || slices.Contains(ShownIconTypes, icon.MediaType)
	if is := sniffImage(content); is != icon.MediaType && (is != "" || sniffed) {
		is = cmp.Or(is, "none of PNG, JPEG, GIF, WebP and SVG")
		mediaType.Report(ruleIconContent, "is %s, but the content of base64data is %s", icon.MediaType, is)
	}
	if len(content) > maxIconBytes {
		data.Report(ruleIconSize, "the image has %d KiB; more than %d KiB burden every catalog that shows it", len(content)>>10, maxIconBytes>>10)
	}
	return icon, true
}

// bareMediaType drops parameters and corrects the usual misspelling.
func bareMediaType(s string) string {
	s, _, _ = strings.Cut(s, ";")
	s = strings.ToLower(strings.TrimSpace(s))
	if s == "image/jpg" {
		return "image/jpeg"
	}
	return s
}

// sniffImage is the media type that the first bytes of an image tell, or "".
func sniffImage(content []byte) string {
	switch {
	case bytes.HasPrefix(content, []byte("\x89PNG\r\n\x1a\n")):
		return "image/png"
	case bytes.HasPrefix(content, []byte("\xff\xd8\xff")):
		return "image/jpeg"
	case bytes.HasPrefix(content, []byte("GIF87a")), bytes.HasPrefix(content, []byte("GIF89a")):
		return "image/gif"
	case len(content) >= 12 && string(content[:4]) == "RIFF" && string(content[8:12]) == "WEBP":
		return "image/webp"
	case svgRoot.Match(content[:min(len(content), maxIconBytes)]):
		return "image/svg+xml"
	}
	return ""
}
