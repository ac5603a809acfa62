package doctor

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	"github.com/collection-operator/collection-operator/internal/collection/findings"
	"github.com/collection-operator/collection-operator/internal/platform/settings"
	"github.com/collection-operator/collection-operator/internal/support/snapshot"
)

// settingsOf returns the ConfigMap with the settings of the managers of a namespace.
func settingsOf(namespace string) Ref {
	return ref(snapshot.ConfigMap, namespace, settings.Name)
}

// checkSettings reports settings that managers do not use. A manager that waits for correct ones is not ready.
func checkSettings(d *diagnosis) {
	for _, config := range snapshot.Typed[corev1.ConfigMap](d.Snapshot, snapshot.ConfigMap) {
		if config.Name != settings.StatusName {
			continue
		}
		status, _ := settings.ParseStatus(config.Data)
		if status.Problem == nil {
			continue
		}
		f := Finding{
			Severity: findings.SeverityWarning, Object: settingsOf(config.Namespace), Reason: v2beta2.ReasonSettingsInvalid,
			Message: "the manager uses the last good settings: " + status.Problem.Error(), Next: reasons[v2beta2.ReasonSettingsInvalid].next,
		}
		if status.Waiting {
			f.Severity, f.Message = findings.SeverityError, "the manager waits for correct settings: "+status.Problem.Error()
		}
		d.report(f)
	}
}
