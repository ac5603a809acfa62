package model

import (
	"bytes"
	"cmp"
	"encoding/base64"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/collection-operator/collection-operator/internal/collection/findings"
)

// CapabilityLevels are the levels of the Operator Framework's capability model, from low to high.
var CapabilityLevels = []string{"Basic Install", "Seamless Upgrades", "Full Lifecycle", "Deep Insights", "Auto Pilot"}

// Categories are those that OperatorHub groups tiles by (the standard categories of the Operator Framework's validators).
var Categories = []string{
	"AI/Machine Learning", "Application Runtime", "Big Data", "Cloud Provider", "Database", "Developer Tools", "Integration & Delivery",
	"Logging & Tracing", "Modernization & Migration", "Monitoring", "Networking", "Observability", "OpenShift Optional", "Security",
	"Storage", "Streaming & Messaging",
}

// readCapabilities reads the level that the author claims.
func readCapabilities(v findings.Value) string {
	if v.Blank() {
		return ""
	}
	s, _ := v.Scalar()
	level, known := spelled(s, CapabilityLevels)
	if !known {
		v.ReportFix(findings.Meant(s, CapabilityLevels), ruleCapabilities, "must be one of %s, not %s; it is ignored", strings.Join(CapabilityLevels, ", "), v.What())
	}
	return level
}

// readCategories reads a list of categories, or a text with commas between them, as it is in a ClusterServiceVersion.
func readCategories(v findings.Value) []string {
	var names []string
	for _, text := range v.TextOrList() {
		names = append(names, strings.Split(text, ",")...)
	}
	var found []string
	for _, name := range names {
		category, known := spelled(name, Categories)
		if known {
			found = append(found, category)
		} else if strings.TrimSpace(name) != "" {
			v.Report(ruleCategories, "%s is no category of OperatorHub, and is ignored: use %s", findings.Quote(name), strings.Join(Categories, ", "))
		}
	}
	slices.Sort(found)
	return slices.Compact(found)
}

// spelled returns a name as it is spelled in a list, whatever its case.
func spelled(name string, list []string) (string, bool) {
	name = strings.TrimSpace(name)
	i := slices.IndexFunc(list, func(known string) bool { return strings.EqualFold(known, name) })
	if i < 0 {
		return "", false
	}
	return list[i], true
}

var (
	// heading is a line of markdown that its author means as a heading.
	heading = regexp.MustCompile(`^#{1,6} \S`)
	// gluedHeading is a heading with a further one of the second level or below on its line.
	gluedHeading = regexp.MustCompile(`^#{1,6} .*\S #{2,6} \S`)
)

// checkHeadings reports headings that do not stand alone on their line in the resulting description, which YAML folds
// where the author wrote ">-", quotes or nothing: then the console shows the text after the heading as part of it.
func checkHeadings(v findings.Value, content []byte) {
	text, ok := v.Scalar()
	if !ok {
		return
	}
	lines := map[string]bool{}
	glued := false
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		lines[line] = true
		glued = glued || gluedHeading.MatchString(line)
	}
	found := false
	for _, written := range writtenLines(v.Node, content) {
		if heading.MatchString(written.text) && !lines[written.text] {
			found = true
			v.ReportAt(written.line, written.column, ruleDescriptionHeading,
				"the heading %s does not end up alone on its line, because YAML joins the lines here; begin the description with |- instead", findings.Quote(written.text))
		}
	}
	if glued && !found {
		v.Report(ruleDescriptionHeading, "a heading does not stand alone on its line; put each on a line of its own")
	}
}

// writtenLine is a line of a text in the author's file.
type writtenLine struct {
	text         string
	line, column int
}

// writtenLines returns the lines of a text in its author's file, as far as they go without an escape or a closing
// quote. The text ends before the next line that is not indented more than the one it begins in.
func writtenLines(n *yaml.Node, content []byte) []writtenLine {
	source := strings.Split(string(content), "\n")
	if n.Line < 1 || n.Line > len(source) {
		return nil
	}
	var out []writtenLine
	add := func(line, column int, text string) {
		if n.Style&(yaml.DoubleQuotedStyle|yaml.SingleQuotedStyle) != 0 {
			if end := strings.IndexAny(text, `\"'`); end >= 0 {
				text = text[:end]
			}
		}
		indentation := len(text) - len(strings.TrimLeft(text, " \t"))
		out = append(out, writtenLine{strings.TrimSpace(text), line, column + indentation})
	}
	first := source[n.Line-1]
	if quoted := n.Style&(yaml.DoubleQuotedStyle|yaml.SingleQuotedStyle) != 0; quoted && n.Column < len(first) {
		add(n.Line, n.Column+1, first[n.Column:])
	}
	indentation := len(first) - len(strings.TrimLeft(first, " "))
	for i, line := range source[n.Line:] {
		trimmed := strings.TrimLeft(line, " ")
		if len(line)-len(trimmed) <= indentation && strings.TrimSpace(trimmed) != "" {
			break
		}
		add(n.Line+1+i, 1, line)
	}
	return out
}

// maxIconBytes is the size up to which an icon does no harm to the catalog that carries it.
const maxIconBytes = 100 << 10

var iconKeys = []string{"base64data", "mediatype"}

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
