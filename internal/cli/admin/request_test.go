package admin

import (
	"strings"
	"testing"
)

func TestReadRequest(t *testing.T) {
	const document = "apiVersion: operator.ibm.com/v1alpha1\nkind: OperandRequest\nmetadata: {name: team%s}\nspec: {requests: []}\n"
	team, other := strings.Replace(document, "%s", "", 1), strings.Replace(document, "%s", ", namespace: payments", 1)
	for name, test := range map[string]struct{ text, namespace, err string }{
		"one":                   {team, "default", ""},
		"with a namespace":      {other, "payments", ""},
		"after a separator":     {"---\n" + team, "default", ""},
		"before a separator":    {team + "---\n", "default", ""},
		"two":                   {team + "---\n" + other, "", "several documents: give the OperandRequest alone"},
		"another kind":          {"{apiVersion: v1, kind: Secret}", "", "is v1 Secret: it must be one OperandRequest of operator.ibm.com/v1alpha1"},
		"nothing":               {"", "", "it must be one OperandRequest"},
		"what is not an object": {"[]", "", "cannot unmarshal array"},
		"too large":             {strings.Repeat("#", maxRequestBytes+1), "", "is larger than 1048576 bytes"},
	} {
		t.Run(name, func(t *testing.T) {
			request, err := readRequest("-", strings.NewReader(test.text), "default")
			if err != nil || test.err != "" {
				if err == nil || test.err == "" || !strings.Contains(err.Error(), test.err) {
					t.Errorf("got %v, want %s", err, test.err)
				}
				return
			}
			if request.Name != "team" || request.Namespace != test.namespace {
				t.Errorf("got %s/%s", request.Namespace, request.Name)
			}
		})
	}
}
