package render

import (
	"cmp"
	_ "embed" // The default icon.
	"encoding/base64"
	"net/mail"
	"net/url"
	"slices"
	"strings"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"

	"github.com/collection-operator/collection-operator/internal/collection/model"
	"github.com/collection-operator/collection-operator/internal/platform/printable"
)

// Limits for texts in a catalog, which every user of OperatorHub loads, in characters. maxIcon is in bytes.
const (
	maxName        = 128
	maxSummary     = 135
	maxHelp        = 2048
	maxKeyword     = 64
	maxAddress     = 2048
	maxDescription = 16 << 10
	maxIcon        = 256 << 10

	// maxListed is the maximum length of lists: authors, licenses, keywords.
	maxListed = 20
)

//go:embed icon.svg
var defaultIcon []byte

// icon returns the collection's first valid icon, or DefaultIcon.
func icon(c *model.Collection) operatorsv1alpha1.Icon {
	for _, icon := range c.Icons {
		if slices.Contains(model.ShownIconTypes, icon.MediaType) && base64.StdEncoding.DecodedLen(len(icon.Base64Data)) <= maxIcon {
			return operatorsv1alpha1.Icon{Data: icon.Base64Data, MediaType: icon.MediaType}
		}
	}
	return DefaultIcon()
}

// DefaultIcon returns the icon of collections without one.
func DefaultIcon() operatorsv1alpha1.Icon {
	return operatorsv1alpha1.Icon{Data: base64.StdEncoding.EncodeToString(defaultIcon), MediaType: "image/svg+xml"}
}

// line returns a text as one line of at most limit printable characters.
func line(s string, limit int) string {
	return shorten(strings.Join(strings.Fields(printable.Lines(s)), " "), limit)
}

// text returns a text like line, but keeps line breaks and tabs.
func text(s string, limit int) string { return shorten(strings.TrimSpace(printable.Lines(s)), limit) }

func shorten(s string, limit int) string {
	runes := []rune(s)
	if len(runes) <= limit {
		return s
	}
	return strings.TrimSpace(string(runes[:limit-1])) + "…"
}

// firstOf returns the first text with printable characters.
func firstOf(texts ...string) string {
	for _, s := range texts {
		if line(s, maxName) != "" {
			return s
		}
	}
	return ""
}

// csvDescription returns the author's description in Markdown, followed by details that have no field in a
// ClusterServiceVersion.
func csvDescription(c *model.Collection) string {
	description := text(firstOf(c.Description, c.Galaxy.Description, c.DisplayName, c.Name), maxDescription)
	for _, part := range []struct {
		title string
		items []string
	}{{"Authors", authorNames(c)}, {"License", c.Galaxy.License}} {
		if items := listed(part.items, maxName); len(items) > 0 {
			description += "\n\n" + part.title + ": " + strings.Join(items, ", ")
		}
	}
	return description
}

// listed returns the first distinct texts that are not empty.
func listed(texts []string, limit int) []string {
	var out []string
	for _, s := range texts {
		if len(out) == maxListed {
			break
		}
		if s = line(s, limit); s != "" && !slices.ContainsFunc(out, func(o string) bool { return strings.EqualFold(o, s) }) {
			out = append(out, s)
		}
	}
	return out
}

func keywords(c *model.Collection) []string {
	return listed(append([]string{"z/OS", "Ansible"}, c.Galaxy.Tags...), maxKeyword)
}

// authorNames returns the authors without their email addresses. Names may be empty.
func authorNames(c *model.Collection) []string {
	names := make([]string, 0, len(c.Galaxy.Authors))
	for _, author := range c.Galaxy.Authors {
		name, _, _ := strings.Cut(author, "<")
		names = append(names, name)
	}
	return names
}

// maintainers returns the authors with an email address, or all by name if none has one.
func maintainers(c *model.Collection) []operatorsv1alpha1.Maintainer {
	var out []operatorsv1alpha1.Maintainer
	for _, author := range c.Galaxy.Authors[:min(len(c.Galaxy.Authors), maxListed)] {
		name, rest, _ := strings.Cut(author, "<")
		address, _, closed := strings.Cut(rest, ">")
		parsed, err := mail.ParseAddress(address)
		if !closed || err != nil || parsed.Address != line(parsed.Address, maxName) {
			continue
		}
		out = append(out, operatorsv1alpha1.Maintainer{
			Name: cmp.Or(line(name, maxName), parsed.Address), Email: parsed.Address,
		})
	}
	if len(out) > 0 {
		return out
	}
	for _, name := range listed(authorNames(c), maxName) {
		out = append(out, operatorsv1alpha1.Maintainer{Name: name})
	}
	return out
}

// provider returns the provider of the collection. Its name is never empty.
func provider(c *model.Collection) operatorsv1alpha1.AppLink {
	author := ""
	if names := authorNames(c); len(names) > 0 {
		author = names[0]
	}
	address, _ := webAddress(c.ProviderURL)
	return operatorsv1alpha1.AppLink{Name: line(firstOf(c.Provider, author, c.Galaxy.Namespace), maxName), URL: address}
}

func links(c *model.Collection) []operatorsv1alpha1.AppLink {
	var out []operatorsv1alpha1.AppLink
	for _, link := range []operatorsv1alpha1.AppLink{
		{Name: "Documentation", URL: c.Galaxy.Documentation}, {Name: "Homepage", URL: c.Galaxy.Homepage},
		{Name: "Repository", URL: c.Galaxy.Repository}, {Name: "Issues", URL: c.Galaxy.Issues},
	} {
		if address, ok := webAddress(link.URL); ok {
			out = append(out, operatorsv1alpha1.AppLink{Name: link.Name, URL: address})
		}
	}
	return out
}

// webAddress returns an http or https address. ok is false for any other text: a link in a console must not run a script.
func webAddress(s string) (address string, ok bool) {
	u, err := url.ParseRequestURI(strings.TrimSpace(s))
	if err != nil || len(s) > maxAddress || u.Host == "" || u.User != nil || u.Scheme != "https" && u.Scheme != "http" {
		return "", false
	}
	return u.String(), true
}

// maturity returns the maturity that the version implies: versions 0.x are not stable.
func maturity(c *model.Collection) string {
	switch pre := strings.ToLower(c.Version.Prerelease()); {
	case strings.HasPrefix(pre, "alpha") || c.Version.Major() == 0:
		return "alpha"
	case pre != "":
		return "beta"
	}
	return "stable"
}
