package doctor

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	"github.com/collection-operator/collection-operator/internal/collection/findings"
	"github.com/collection-operator/collection-operator/internal/run/endpoint"
	"github.com/collection-operator/collection-operator/internal/support/snapshot"
)

// mayBeOfOldClients reports whether a Secret may be a credential that is not marked: its keys, which are not read, say so.
func mayBeOfOldClients(secret *snapshot.Secret) bool {
	return secret.Type == string(corev1.SecretTypeOpaque) && (secret.Keys == 2 || secret.Keys == 3)
}

func checkSecrets(d *diagnosis) {
	for _, use := range d.uses {
		if d.has(use.secret) {
			continue
		}
		secret, isKnown := d.Secret(use.secret.Namespace, use.secret.Name)
		f := Finding{Severity: findings.SeverityError, Object: use.secret}
		named := use.user.String() + " names it in " + use.field
		switch {
		case !isKnown:
			continue
		case secret == nil:
			f.Reason, f.Message, f.Next = "NotFound", "the Secret does not exist; "+named, "create it: docs/credentials.md"
		case use.isLogon && mayBeOfOldClients(secret): // If not, the SubOperatorConfig says so.
			continue
		case use.isSent && secret.Type != string(corev1.SecretTypeSSHAuth) && secret.Labels[endpoint.LabelCredential] != "true":
			f.Reason, f.Message = "NotLabelled", "the Secret is not marked as a credential, so that it is sent nowhere; "+named
			f.Next = "if it is meant to be sent: kubectl label secret " + secret.Name + " -n " + secret.Namespace + " " + endpoint.LabelCredential + "=true"
		case secret.Keys == 0:
			f.Reason, f.Message, f.Next = "Empty", "the Secret has no keys; "+named, "add the keys: docs/credentials.md"
		default:
			continue
		}
		d.report(f)
	}
}

func checkImports(d *diagnosis) {
	for _, oc := range d.collections {
		self := ref(snapshot.OperatorCollection, oc.Namespace, oc.Name)
		if oc.DeletionTimestamp != nil {
			continue
		}
		if oc.Spec.Suspend {
			d.report(Finding{
				Severity: findings.SeverityInfo, Object: self, Reason: "Suspended", Message: "spec.suspend is true: changes and new archives are not imported",
				Next: "set spec.suspend to false when they are to be imported",
			})
		} else if d.unnoticed(oc, v2beta2.ConditionReady, self) {
			continue
		}
		causes := append(slices.Clone(d.secretsOf[self]), ref(snapshot.Namespace, "", oc.Namespace))
		if imported := meta.FindStatusCondition(oc.Status.Conditions, v2beta2.ConditionImported); imported != nil {
			switch imported.Reason {
			case v2beta2.ReasonStorageFailed, v2beta2.ReasonStorageFull, v2beta2.ReasonReplicating, v2beta2.ReasonProgressing, v2beta2.ReasonUnexpectedError:
				causes = append(causes, theManager)
				for _, m := range d.managers {
					causes = append(causes, m.Ref)
				}
			}
		}
		if d.condition(oc, v2beta2.ConditionImported, self, causes...) {
			continue
		}
		if blocked := meta.FindStatusCondition(oc.Status.Conditions, v2beta2.ConditionUpgradeBlocked); blocked != nil && blocked.Status == metav1.ConditionTrue {
			severity, next := advise(v2beta2.ReasonUpgradeBlocked, self)
			d.report(Finding{Severity: severity, Object: self, Reason: v2beta2.ReasonUpgradeBlocked, Message: blocked.Message, Next: next})
		}
		if published := meta.FindStatusCondition(oc.Status.Conditions, v2beta2.ConditionPublished); published != nil &&
			published.Reason != v2beta2.ReasonOLMUnavailable && published.Reason != v2beta2.ReasonProgressing {
			d.condition(oc, v2beta2.ConditionPublished, self)
		}
	}
}

func checkEndpoints(d *diagnosis) {
	for _, e := range d.endpoints {
		self := ref(snapshot.ZosEndpoint, e.Namespace, e.Name)
		if e.DeletionTimestamp != nil || d.unnoticed(e, v2beta2.ConditionReady, self) {
			continue
		}
		secrets := d.secretsOf[self]
		if d.condition(e, v2beta2.ConditionReady, self) {
			continue
		}
		d.condition(e, v2beta2.ConditionReachable, self)
		d.condition(e, v2beta2.ConditionCredentialAccepted, self, secrets...)
		if e.Spec.Hold != "" {
			d.add(Finding{
				Severity: findings.SeverityInfo, Object: self, Reason: string(endpoint.ReasonHeld), Message: "on hold: " + e.Spec.Hold,
				Next: waits[string(endpoint.ReasonHeld)].next,
			}, waitKey(self, string(endpoint.ReasonHeld)))
		}
	}
}

func checkConfigs(d *diagnosis) {
	for _, config := range d.configs {
		self := ref(snapshot.SubOperatorConfig, config.Namespace, config.Name)
		if config.DeletionTimestamp != nil || d.unnoticed(config, v2beta2.ConditionReady, self) {
			continue
		}
		d.condition(config, v2beta2.ConditionReady, self, d.causesOf(config)...)
		d.condition(config, v2beta2.ConditionMigrated, self)
	}
}

// causesOf returns the objects that may be why a SubOperatorConfig is not ready for the reason that it has.
func (d *diagnosis) causesOf(config *v2beta2.SubOperatorConfig) []Ref {
	var causes []Ref
	ready := meta.FindStatusCondition(config.Status.Conditions, v2beta2.ConditionReady)
	if ready == nil {
		return nil
	}
	switch ready.Reason {
	case v2beta2.ReasonCollectionNotImported, v2beta2.ReasonCollectionTerminating, v2beta2.ReasonNotPublished, v2beta2.ReasonBundleTooLarge,
		v2beta2.ReasonPackageConflict, v2beta2.ReasonUpgradeBlocked, v2beta2.ReasonUpgradePending, v2beta2.ReasonUpgradeStopped:
		causes = append(causes, ref(snapshot.OperatorCollection, config.Namespace, config.Spec.OperatorCollection))
	case v2beta2.ReasonCredentialInvalid:
		causes = slices.Clone(d.secretsOf[ref(snapshot.SubOperatorConfig, config.Namespace, config.Name)])
		for _, e := range d.endpoints {
			if e.Namespace == config.Namespace {
				causes = append(causes, d.secretsOf[ref(snapshot.ZosEndpoint, e.Namespace, e.Name)]...)
			}
		}
	case v2beta2.ReasonInvalidVariables, v2beta2.ReasonEndpointNotFound:
		for _, e := range d.endpoints {
			if e.Namespace == config.Namespace {
				causes = append(causes, ref(snapshot.ZosEndpoint, e.Namespace, e.Name))
			}
		}
	case v2beta2.ReasonMappingNotAllowed:
		for _, mapping := range config.Spec.Mapping {
			causes = append(causes, ref(snapshot.Namespace, "", mapping.Namespace))
		}
	case v2beta2.ReasonProgressing, v2beta2.ReasonWorkloadUnavailable, v2beta2.ReasonDependencyMissing, v2beta2.ReasonCatalogUnhealthy,
		v2beta2.ReasonWaitingForApproval, v2beta2.ReasonInstallPlanFailed, v2beta2.ReasonClusterServiceVersionFailed,
		v2beta2.ReasonOperatorGroupConflict, v2beta2.ReasonOperatorGroupMissing:
		for _, key := range slices.SortedFunc(maps.Keys(d.installations), compareKeys) {
			if i := d.installations[key]; i.config == ref(snapshot.SubOperatorConfig, config.Namespace, config.Name) {
				causes = append(causes, d.olmObjects(i)...)
				causes = append(causes, i.ref())
			}
		}
	}
	return causes
}

// checkCollections checks OperatorCollections that are imported, and the deletions of OperatorCollections and SubOperatorConfigs.
func checkCollections(d *diagnosis) {
	for _, config := range d.configs {
		if config.DeletionTimestamp != nil {
			self := ref(snapshot.SubOperatorConfig, config.Namespace, config.Name)
			d.deletion(config, self, d.resourcesOf(func(i *installation) bool { return i.config == self }))
		}
	}
	for _, oc := range d.collections {
		self := ref(snapshot.OperatorCollection, oc.Namespace, oc.Name)
		var configs []Ref
		for _, config := range d.configs {
			if config.Namespace == oc.Namespace && config.Spec.OperatorCollection == oc.Name {
				configs = append(configs, ref(snapshot.SubOperatorConfig, config.Namespace, config.Name))
			}
		}
		switch {
		case oc.DeletionTimestamp != nil:
			resources := d.resourcesOf(func(i *installation) bool { return slices.Contains(configs, i.config) })
			d.deletion(oc, self, append(resources, configs...))
		case !d.has(self):
			d.condition(oc, v2beta2.ConditionReady, self, configs...)
		}
	}
}

// deletion reports an object whose deletion takes long.
func (d *diagnosis) deletion(o object, self Ref, causes []Ref) {
	f := Finding{
		Severity: findings.SeverityInfo, Object: self, Reason: v2beta2.ReasonTerminating, Message: "the object is being deleted",
		Next: "wait; if it stays so, see the log of the manager",
	}
	if c := meta.FindStatusCondition(*o.StatusConditions(), v2beta2.ConditionReady); c != nil && c.Status == metav1.ConditionFalse {
		f.Reason, f.Message = c.Reason, c.Message
		f.Severity, f.Next = advise(c.Reason, self)
	}
	d.report(f, append(causes, theManager)...)
}

// resourcesOf returns the custom resources of installations.
func (d *diagnosis) resourcesOf(isOf func(*installation) bool) []Ref {
	var resources []Ref
	for j := range d.resources {
		if i, _ := d.installation(&d.resources[j]); i != nil && isOf(i) {
			resources = append(resources, d.resources[j].ref())
		}
	}
	return resources
}
