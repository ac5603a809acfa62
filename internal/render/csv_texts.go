package render

import (
	"cmp"
	_ "embed" // The default icon.
	"encoding/base64"
	"net/mail"
	"net/url"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"

	"github.com/collection-operator/collection-operator/internal/collection"
)

// Limits for texts in a catalog, which everybody who opens OperatorHub loads: characters, but bytes for maxIcon.
const (
	maxName        = 128
	maxSummary     = 135
	maxHelp        = 2048
	maxKeyword     = 64
	maxAddress     = 2048
	maxDescription = 16 << 10
	maxIcon        = 256 << 10

	// maxListed bounds lists: authors, licenses, keywords.
	maxListed = 20
)

//go:embed icon.svg
var defaultIcon []byte

// icon is the collection's first one that may be shown, or our own.
func icon(c *collection.Collection) operatorsv1alpha1.Icon {
	for _, icon := range c.Icons {
		if slices.Contains(collection.ShownIconTypes, icon.MediaType) && base64.StdEncoding.DecodedLen(len(icon.Base64Data)) <= maxIcon {
			return operatorsv1alpha1.Icon{Data: icon.Base64Data, MediaType: icon.MediaType}
		}
	}
	return DefaultIcon()
}

// DefaultIcon is our own icon.
func DefaultIcon() operatorsv1alpha1.Icon {
	return operatorsv1alpha1.Icon{Data: base64.StdEncoding.EncodeToString(defaultIcon), MediaType: "image/svg+xml"}
}

// line is a text on one line, with at most limit characters and none that changes how others are shown.
func line(s string, limit int) string {
	s = strings.Map(func(r rune) rune {
		switch {
		case unicode.IsSpace(r) || unicode.IsControl(r):
			return ' '
		case !unicode.IsPrint(r) || r == utf8.RuneError:
			return -1
		}
		return r
	}, s)
	return shorten(strings.Join(strings.Fields(s), " "), limit)
}

// text keeps line breaks and tabs, and else is like line.
func text(s string, limit int) string {
	s = strings.Map(func(r rune) rune {
		switch {
		case r == '\n' || r == '\t' || unicode.IsPrint(r) && r != utf8.RuneError:
			return r
		case unicode.Is(unicode.Zs, r):
			return ' '
		}
		return -1
	}, s)
	return shorten(strings.TrimSpace(s), limit)
}

func shorten(s string, limit int) string {
	runes := []rune(s)
	if len(runes) <= limit {
		return s
	}
	return strings.TrimSpace(string(runes[:limit-1])) + "…"
}

// firstOf is the first text that has something to show.
func firstOf(texts ...string) string {
	for _, s := range texts {
		if line(s, maxName) != "" {
			return s
		}
	}
	return ""
}

// csvDescription is markdown: the author's, and at its end what has no place of its own.
func csvDescription(c *collection.Collection) string {
	description := text(firstOf(c.Description, c.Galaxy.Description, c.DisplayName, c.Name), maxDescription)
	authors := make([]string, 0, len(c.Galaxy.Authors))
	for _, author := range c.Galaxy.Authors {
		name, _, _ := strings.Cut(author, "<")
		authors = append(authors, name)
	}
	for _, part := range []struct {
		title string
		items []string
	}{{"Authors", authors}, {"License", c.Galaxy.License}} {
		if items := listed(part.items, maxName); len(items) > 0 {
			description += "\n\n" + part.title + ": " + strings.Join(items, ", ")
		}
	}
	return description
}

// listed are the first few texts that are not empty, each once.
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

func keywords(c *collection.Collection) []string {
	return listed(append([]string{"z/OS", "Ansible"}, c.Galaxy.Tags...), maxKeyword)
}

// maintainers are the authors who can be written to.
func maintainers(c *collection.Collection) []operatorsv1alpha1.Maintainer {
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
	return out
}

// provider has a name in any case.
func provider(c *collection.Collection) operatorsv1alpha1.AppLink {
	author := ""
	if len(c.Galaxy.Authors) > 0 {
		author, _, _ = strings.Cut(c.Galaxy.Authors[0], "<")
	}
	address, _ := webAddress(c.ProviderURL)
	return operatorsv1alpha1.AppLink{Name: line(firstOf(c.Provider, author, c.Galaxy.Namespace), maxName), URL: address}
}

func links(c *collection.Collection) []operatorsv1alpha1.AppLink {
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

// webAddress says whether a browser may be sent to an address: a link in a console must not run a script.
func webAddress(s string) (address string, ok bool) {
	u, err := url.ParseRequestURI(strings.TrimSpace(s))
	if err != nil || len(s) > maxAddress || u.Host == "" || u.User != nil || u.Scheme != "https" && u.Scheme != "http" {
		return "", false
	}
	return u.String(), true
}

// maturity is what the version says: an author promises nothing of 0.x.
func maturity(c *collection.Collection) string {
	switch pre := strings.ToLower(c.Version.Prerelease()); {
	case strings.HasPrefix(pre, "alpha") || c.Version.Major() == 0:
		return "alpha"
	case pre != "":
		return "beta"
	}
	return "stable"
}
