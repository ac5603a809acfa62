package gate

import "testing"

func TestAnnotationsUnderTheOldPrefix(t *testing.T) {
	const old = "ansible.operator-sdk/reconcile-period"
	for name, tt := range map[string]struct {
		annotations map[string]string
		name, want  string
	}{
		"today's":           {map[string]string{AnnotationReconcilePeriod: "1h"}, AnnotationReconcilePeriod, "1h"},
		"old":               {map[string]string{old: "2h"}, AnnotationReconcilePeriod, "2h"},
		"both":              {map[string]string{AnnotationReconcilePeriod: "1h", old: "2h"}, AnnotationReconcilePeriod, "1h"},
		"another old one":   {map[string]string{"ansible.operator-sdk/max-runner-artifacts": "3"}, AnnotationMaxArtifacts, "3"},
		"none":              {nil, AnnotationReconcilePeriod, ""},
		"ours has no other": {map[string]string{"ansible.operator-sdk/abandon": "true"}, AnnotationAbandon, ""},
	} {
		t.Run(name, func(t *testing.T) {
			if got := Annotation(tt.annotations, tt.name); got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}
