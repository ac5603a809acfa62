package doctor

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	"github.com/collection-operator/collection-operator/internal/collection/findings"
	"github.com/collection-operator/collection-operator/internal/collection/render"
	"github.com/collection-operator/collection-operator/internal/platform/settings"
	"github.com/collection-operator/collection-operator/internal/support/snapshot"
)

func checkAPI(d *diagnosis) {
	if !d.ServesAPI {
		d.report(Finding{
			Severity: findings.SeverityError, Object: theManager, Reason: "NotInstalled",
			Message: "the cluster does not serve the API group " + v2beta2.GroupVersion.Group,
			Next:    "install Collection Operator: docs/install.md",
		})
	}
}

func checkManager(d *diagnosis) {
	if len(d.managers) == 0 {
		if d.ServesAPI && d.IsComplete(snapshot.ManagerSets, d.ManagerNamespace) && d.IsComplete(snapshot.ManagerDeployments, d.ManagerNamespace) {
			d.report(Finding{
				Severity: findings.SeverityError, Object: theManager, Reason: "NotFound",
				Message: "no StatefulSet or Deployment of the manager was found",
				Next:    "install Collection Operator, or give the manager's namespace with --manager-namespace",
			})
		}
		return
	}
	for _, claim := range snapshot.Typed[corev1.PersistentVolumeClaim](d.Snapshot, snapshot.Claim) {
		if claim.Status.Phase != corev1.ClaimBound {
			d.report(Finding{
				Severity: findings.SeverityError, Object: ref(snapshot.Claim, claim.Namespace, claim.Name), Reason: "NotBound",
				Message: fmt.Sprintf("the volume for archives is %s", claim.Status.Phase),
				Next:    "see its events: does the StorageClass exist, and does it provide volumes?",
			})
		}
	}
	var ready []string
	var last Ref
	for _, m := range d.managers {
		if m.Ready > 0 {
			ready = append(ready, m.String())
			last = m.Ref
		}
		if m.Ready < max(m.Want, 1) {
			reportManager(d, m)
		}
	}
	if len(ready) > 1 {
		d.report(Finding{
			Severity: findings.SeverityWarning, Object: last, Reason: "TwoManagers",
			Message: fmt.Sprintf("%d managers run in the cluster: %s", len(ready), strings.Join(ready, ", ")),
			Next:    "if their flags --namespaces do not select different namespaces, remove one of them",
		})
	}
}

func reportManager(d *diagnosis, m Manager) {
	f := Finding{
		Severity: findings.SeverityError, Object: m.Ref, Reason: "NotReady", Message: fmt.Sprintf("%d of %d pods are ready", m.Ready, m.Want),
		Next: fmt.Sprintf("see its log: kubectl logs -n %s %s/%s -c %s", m.Namespace, strings.ToLower(m.Kind), m.Name, snapshot.ManagerContainer),
	}
	switch {
	case m.Want == 0:
		f.Reason, f.Message = "ScaledToZero", "it is scaled to zero"
		f.Next = fmt.Sprintf("kubectl scale -n %s %s/%s --replicas=2", m.Namespace, strings.ToLower(m.Kind), m.Name)
	case m.Ready > 0:
		f.Severity = findings.SeverityWarning // The other one works.
	}
	causes := []Ref{settingsOf(m.Namespace)}
	for _, pod := range d.pods {
		if pod.Namespace == m.Namespace && pod.Labels[snapshot.LabelManager] == snapshot.ManagerName {
			if problem := podProblem(d, pod); problem != "" {
				f.Message += "; pod " + pod.Name + ": " + problem
			}
			for _, volume := range pod.Spec.Volumes {
				if volume.PersistentVolumeClaim != nil {
					causes = append(causes, ref(snapshot.Claim, pod.Namespace, volume.PersistentVolumeClaim.ClaimName))
				}
			}
		}
	}
	d.report(f, causes...)
	if i, ok := d.found[m.Ref]; ok && m.Ready == 0 && !d.has(theManager) {
		d.found[theManager] = i
	}
}

func checkNamespaces(d *diagnosis) {
	for _, namespace := range snapshot.Typed[corev1.Namespace](d.Snapshot, snapshot.Namespace) {
		if namespace.DeletionTimestamp == nil {
			continue
		}
		var waits []string
		for _, c := range namespace.Status.Conditions {
			if c.Status == corev1.ConditionTrue {
				waits = append(waits, c.Message)
			}
		}
		slices.Sort(waits)
		d.report(Finding{
			Severity: findings.SeverityError, Object: ref(snapshot.Namespace, "", namespace.Name), Reason: "Terminating",
			Message: strings.Join(append([]string{"the namespace is being deleted"}, waits...), "; "),
			Next:    "wait; custom resources that hang on their finalizer are removed with kubectl collection abandon",
		})
	}
}

func checkDefinitions(d *diagnosis) {
	for _, definition := range d.definitions {
		f := Finding{Severity: findings.SeverityError, Object: ref(snapshot.CustomResourceDefinition, "", definition.Name)}
		switch {
		case definition.Spec.Group == v2beta2.GroupVersion.Group && definition.Labels["app.kubernetes.io/part-of"] != snapshot.ManagerName:
			f.Reason, f.Message = "ForeignObject", "the CRD belongs to another product: the manager does not start beside it"
			f.Next = "remove the other product, or use another cluster"
		case definition.DeletionTimestamp != nil:
			f.Reason, f.Message = "Terminating", "the CRD is being deleted: "+definitionCondition(definition, apiextensionsv1.Terminating)
			f.Next = "see the custom resources that are left: kubectl get " + definition.Name + " -A"
		case definitionCondition(definition, apiextensionsv1.NamesAccepted) != "":
			f.Reason, f.Message = "NamesNotAccepted", definitionCondition(definition, apiextensionsv1.NamesAccepted)
			f.Next = "remove the other CRD with these names, or import the collection with apiGroup: PerCollection"
		case definitionCondition(definition, apiextensionsv1.Established) != "":
			f.Reason, f.Message = "NotEstablished", definitionCondition(definition, apiextensionsv1.Established)
			f.Next = "wait; if it stays so, see the log of the API server"
		default:
			if f.Message = storedProblem(definition); f.Message == "" {
				continue
			}
			f.Severity, f.Reason = findings.SeverityWarning, "StoredVersions"
			f.Next = "wait until the manager has rewritten the custom resources; if it stays so, see the log of the manager"
		}
		d.report(f, theManager)
	}
}

// definitionCondition returns the message of a condition that is not as it should be, or "".
func definitionCondition(definition *apiextensionsv1.CustomResourceDefinition, kind apiextensionsv1.CustomResourceDefinitionConditionType) string {
	bad := apiextensionsv1.ConditionFalse
	if kind == apiextensionsv1.Terminating {
		bad = apiextensionsv1.ConditionTrue
	}
	for _, c := range definition.Status.Conditions {
		if c.Type == kind && c.Status == bad {
			return c.Reason + ": " + c.Message
		}
	}
	return ""
}

// storedProblem returns what is wrong with the versions in which custom resources are stored, or "".
func storedProblem(definition *apiextensionsv1.CustomResourceDefinition) string {
	for _, stored := range definition.Status.StoredVersions {
		i := slices.IndexFunc(definition.Spec.Versions, func(v apiextensionsv1.CustomResourceDefinitionVersion) bool { return v.Name == stored })
		switch {
		case i < 0:
			return fmt.Sprintf("custom resources may be stored in version %s, which the CRD does not have", stored)
		case !definition.Spec.Versions[i].Served && definition.Annotations[render.AnnotationRewriting] == "":
			return fmt.Sprintf("custom resources may be stored in version %s, which is not served", stored)
		}
	}
	return ""
}

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
