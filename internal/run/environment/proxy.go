package environment

import (
	"net/url"
	"slices"
	"strings"
)

const noProxy = "NO_PROXY"

var proxyVariables = []string{"HTTP_PROXY", "HTTPS_PROXY", noProxy}

// clusterAddresses are never reached through a proxy. Services are those of the default domain.
var clusterAddresses = []string{".svc", ".cluster.local", "localhost", "127.0.0.1", "::1"}

// apiServer is the variable with the address of the API server, in each pod.
const apiServer = "KUBERNETES_SERVICE_HOST"

// NoProxy returns a value of NO_PROXY with the addresses of the cluster, of which the API server may be "".
func NoProxy(value, api string) string {
	entries := slices.DeleteFunc(strings.Split(value, ","), func(entry string) bool { return strings.TrimSpace(entry) == "" })
	if slices.ContainsFunc(entries, func(entry string) bool { return strings.TrimSpace(entry) == "*" }) {
		return value
	}
	for _, address := range append([]string{api}, clusterAddresses...) {
		if address != "" && !slices.ContainsFunc(entries, func(entry string) bool { return strings.TrimSpace(entry) == address }) {
			entries = append(entries, address)
		}
	}
	return strings.Join(entries, ",")
}

// ForOperators returns the value of KeyVariables for a manager with these variables, or "" if it uses no proxy, and the names of those
// that are withheld: they have a password, which is not given to operators, or are not valid. NO_PROXY is not withheld with them: operators
// that get their own proxy need it.
func ForOperators(lookup func(string) string) (text string, withheld []string) {
	var lines []string
	for _, key := range proxyVariables {
		value := lookup(key)
		if value == "" {
			value = lookup(strings.ToLower(key))
		}
		switch {
		case value == "", key == noProxy && len(lines) == 0 && len(withheld) == 0:
		case strings.ContainsAny(value, "\r\n\x00"), key != noProxy && holdsPassword(value):
			withheld = append(withheld, key)
		default:
			lines = append(lines, key+"="+value+"\n")
		}
	}
	return strings.Join(lines, ""), withheld
}

// holdsPassword is true for a user name too, and for what is not a URL.
func holdsPassword(proxy string) bool {
	if strings.Contains(proxy, "@") {
		return true
	}
	parsed, err := url.Parse(proxy)
	return strings.Contains(proxy, "://") && (err != nil || parsed.User != nil)
}
