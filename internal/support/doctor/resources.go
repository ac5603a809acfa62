package doctor

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	"github.com/collection-operator/collection-operator/internal/collection/findings"
	"github.com/collection-operator/collection-operator/internal/collection/render"
	"github.com/collection-operator/collection-operator/internal/run/endpoint"
	"github.com/collection-operator/collection-operator/internal/run/runstatus"
	"github.com/collection-operator/collection-operator/internal/support/snapshot"
)

// waits has the next step for each reason of status.waiting.
var waits = map[string]advice{
	string(endpoint.ReasonHeld):               wait("wait until spec.hold of the ZosEndpoint is removed"),
	string(endpoint.ReasonOutsideWindow):      wait("wait for the window; an administrator can let a resource run now: docs/endpoints.md"),
	string(endpoint.ReasonCredentialRefused):  act("correct the credential Secret, or allow another logon: docs/endpoints.md"),
	string(endpoint.ReasonCredentialUntested): wait("wait for the run that tries the credential first"),
	string(endpoint.ReasonUnreachable):        act("check the network between the operator's pod and the system: firewalls, and egress in spec.runtime.networkPolicy"),
	string(endpoint.ReasonSettling):           wait("wait until spec.settle of the ZosEndpoint is over"),
	string(endpoint.ReasonBusy):               wait("wait, or raise spec.maxConcurrentRuns of the ZosEndpoint"),
	"EndpointNotFound":                        act("create the ZosEndpoint, or change spec.zosendpoint of the resource"),
	"EndpointStateUnavailable":                act("wait a minute; if it stays so, see the conditions of the ZosEndpoint and the log of the manager"),
	"CredentialUnknown":                       act("wait a minute; if it stays so, see the log of the manager"),
	"EndpointInvalid":                         act("correct spec.runWindows of the ZosEndpoint"),
	"PersonalCredentialMissing":               act("set annotation zoscb.ibm.com/credential of the resource: docs/credentials.md"),
	"PersonalCredentialInvalid":               act("correct the Secret, or annotation zoscb.ibm.com/credential of the resource: docs/credentials.md"),
	"PersonalCredentialUnreadable":            act("wait a minute; if it stays so, see the SubOperatorConfig and the log of the manager"),
	"PersonalCredentialUnprotected":           act("an administrator must apply policy collection-operator-personal-credentials: docs/permissions.md"),
	v2beta2.ReasonRuntimeObjectNotAllowed:     act("label the Secret that the message names, or name another one: docs/credentials.md"),
	"CannotStart":                             act("correct what the message names; if it stays so, see the log of the operator's pod"),
	"RunsAlone":                               wait("wait for the run of the other resource"),
	"MigrationStopped":                        act("correct the resource that the message names, run it again, or delete it"),
}

// failures has the next step for messages of failed runs that begin with a word.
var failures = map[string]string{
	"EndpointNotFound":     "correct spec.zosendpoint: the message lists the ZosEndpoints of the mapping",
	"EndpointUnreachable":  "check host, port, firewalls, and whether sshd runs",
	"EndpointNotUsable":    "check the home directory and the file systems of the user ID, or set ansible_remote_tmp in the variables of the ZosEndpoint",
	"HostKeyMismatch":      "find out whether the host key was changed on purpose; if so, put the new one into spec.hostKeys of the ZosEndpoint",
	"HostKeyUnknown":       "wait for the probe, or set spec.hostKeys of the ZosEndpoint",
	"AuthenticationFailed": "correct the credential Secret, or allow another logon: docs/endpoints.md",
	"CredentialMissing":    "set spec.credentialName of the ZosEndpoint, or credentialName in the mapping",
	"CredentialInvalid":    "correct the credential Secret: docs/credentials.md",
	"EndpointInvalid":      "correct spec.variables of the ZosEndpoint",
	"ReservedVariable":     "ask the author of the collection to choose another name for the variable",
	"NoHostsMatched":       "ask the author of the collection to write hosts: all",
	"PlaybookError":        "ask the author of the collection to correct the playbook",
}

// endpointFailures are those that a ZosEndpoint is the cause of.
var endpointFailures = []string{
	"EndpointUnreachable", "HostKeyMismatch", "HostKeyUnknown", "AuthenticationFailed", "CredentialMissing", "CredentialInvalid", "EndpointInvalid",
}

func checkResources(d *diagnosis) {
	for i := range d.resources {
		if r := &d.resources[i]; d.runsLong(r) {
			reportLongRun(d, r)
		}
	}
	for i := range d.resources {
		r := &d.resources[i]
		checkResource(d, r)
		checkSpec(d, r)
	}
}

func checkResource(d *diagnosis, r *resource) {
	ready := meta.FindStatusCondition(r.status.Conditions, runstatus.ConditionReady)
	phase := runstatus.PhasePending
	if ready != nil {
		phase = runstatus.Phase(ready.Reason)
	}
	causes := []Ref{ref(snapshot.CustomResourceDefinition, "", definitionName(r))}
	i, isKnown := d.installation(r)
	if i != nil {
		causes = append(causes, append(d.olmObjects(i), i.ref(), i.config)...)
	}
	hangs := r.GetDeletionTimestamp() != nil && slices.Contains(r.GetFinalizers(), render.Finalizer)
	isWorking := ready != nil && ready.Status == metav1.ConditionTrue && ready.ObservedGeneration >= r.GetGeneration() && !hangs
	switch {
	case r.err != nil:
		d.report(Finding{
			Severity: findings.SeverityWarning, Object: r.ref(), Reason: "StatusUnreadable", Message: "the status cannot be read: " + r.err.Error(),
			Next: "find out who has written the status: kubectl get " + r.argument() + " -o yaml --show-managed-fields",
		})
	case isWorking:
	case phase == runstatus.PhaseNoOperator, isKnown && (i == nil || i.deployment == nil) && d.IsComplete(snapshot.Operators, r.GetNamespace()):
		reportNoOperator(d, r, hangs, causes)
	case r.status.Waiting != nil:
		reportWait(d, r)
	case phase == runstatus.PhaseFailed:
		reportFailure(d, r, ready.Message)
	case hangs && phase != runstatus.PhaseRunning && (r.status.LastRun == nil || r.status.LastRun.Outcome != ""):
		d.report(Finding{
			Severity: findings.SeverityWarning, Object: r.ref(), Reason: "Finalizer", Message: "the resource is being deleted, and its deletion playbook does not run",
			Next: "see the log of the operator; if the z/OS system is gone for good: kubectl collection abandon " + r.argument(),
		}, causes...)
	case phase == runstatus.PhasePending && d.Taken.Sub(r.GetCreationTimestamp().Time) > noticeTime:
		d.report(Finding{
			Severity: findings.SeverityWarning, Object: r.ref(), Reason: "NotRun", Message: "no run of the playbook has started",
			Next: "see the log of the operator in namespace " + r.GetNamespace() + "; is the namespace in spec.mapping of a SubOperatorConfig?",
		}, append(causes, d.longRuns(r)...)...)
	}
}

func (d *diagnosis) runsLong(r *resource) bool {
	run := r.status.LastRun
	return run != nil && run.Outcome == "" && runstatus.IsLong(run.Started.Time, d.Taken)
}

func reportLongRun(d *diagnosis, r *resource) {
	d.report(Finding{
		Severity: findings.SeverityWarning, Object: r.ref(), Reason: "LongRun",
		Message: fmt.Sprintf("the playbook has been running for %d hours, in one of the places that the resources of its kind share (runtime.maxConcurrentReconciles)",
			int(d.Taken.Sub(r.status.LastRun.Started.Time).Hours())),
		Next: "find out whether it hangs: kubectl collection logs " + r.argument() + "; end it: kubectl collection cancel " + r.argument(),
	})
}

// longRuns are the resources with a long run that takes a place in the operator's pod which another one may wait for: those of its kind.
func (d *diagnosis) longRuns(r *resource) []Ref {
	var refs []Ref
	for i := range d.resources {
		other := &d.resources[i]
		if other.GetNamespace() == r.GetNamespace() && other.GroupVersionKind().GroupKind() == r.GroupVersionKind().GroupKind() && d.runsLong(other) {
			refs = append(refs, other.ref())
		}
	}
	return refs
}

// definitionName returns the name of a resource's CRD: the plural is the kind in lower case with an s.
func definitionName(r *resource) string {
	return strings.ToLower(r.GetKind()) + "s." + r.GroupVersionKind().Group
}

func reportNoOperator(d *diagnosis, r *resource, hangs bool, causes []Ref) {
	f := Finding{
		Severity: findings.SeverityError, Object: r.ref(), Reason: string(runstatus.PhaseNoOperator), Message: "no operator runs for this resource",
		Next: "add namespace " + r.GetNamespace() + " to spec.mapping of a SubOperatorConfig of the collection",
	}
	if hangs {
		f.Reason, f.Message = "Finalizer", "the resource is being deleted, and no operator runs that would run its deletion playbook"
		f.Next += ", or remove it without a run: kubectl collection abandon " + r.argument()
	}
	for _, config := range d.configs {
		if slices.ContainsFunc(config.Spec.Mapping, func(m v2beta2.NamespaceMapping) bool { return m.Namespace == r.GetNamespace() }) {
			causes = append(causes, ref(snapshot.SubOperatorConfig, config.Namespace, config.Name))
		}
	}
	d.report(f, causes...)
}

// reportWait reports what a run waits for: once for all resources of a ZosEndpoint.
func reportWait(d *diagnosis, r *resource) {
	waiting := r.status.Waiting
	known, ok := waits[waiting.Reason]
	if !ok {
		known = act("see status.waiting of the resource")
	}
	self := d.endpointOf(r)
	f := Finding{Severity: known.severity, Object: r.ref(), Reason: waiting.Reason, Message: waiting.Message, Next: known.next}
	var causes []Ref
	if known.severity == findings.SeverityError {
		causes = append(causes, self)
	}
	if i, _ := d.installation(r); i != nil {
		causes = append(causes, i.ref())
	}
	if waiting.Reason == v2beta2.ReasonRuntimeObjectNotAllowed {
		d.report(f, d.secretsOf[r.ref()]...)
		return
	}
	ofResource := slices.Contains([]string{"CannotStart", "RunsAlone", "MigrationStopped"}, waiting.Reason)
	if ofResource || slices.ContainsFunc(causes, d.has) {
		d.report(f, causes...)
		return
	}
	key := waitKey(self, waiting.Reason)
	if !d.has(key) {
		f.Object = self
		d.add(f, key)
	}
	f.Object = r.ref()
	d.report(f, key)
}

// waitKey stands for what the runs of a ZosEndpoint wait for.
func waitKey(zosEndpoint Ref, reason string) Ref {
	return Ref{Kind: reason, Namespace: zosEndpoint.Namespace, Name: zosEndpoint.Name}
}

// reportFailure reports a run that failed. A playbook that ran does not fail because of the operator.
func reportFailure(d *diagnosis, r *resource, message string) {
	word, _, _ := strings.Cut(message, " ")
	word = strings.TrimRight(word, ":,;")
	f := Finding{
		Severity: findings.SeverityError, Object: r.ref(), Reason: string(runstatus.PhaseFailed), Message: message,
		Next: "see its output: kubectl collection logs " + r.argument() + "; then: kubectl collection rerun " + r.argument(),
	}
	if next, ok := failures[word]; ok {
		f.Reason, f.Next = word, next
	}
	var causes []Ref
	if slices.Contains(endpointFailures, word) {
		self := d.endpointOf(r)
		causes = append(slices.Clone(d.secretsOf[self]), self)
	}
	if r.GetDeletionTimestamp() != nil {
		f.Message = "the deletion playbook failed: " + f.Message
		f.Next += "; if the z/OS system is gone for good: kubectl collection abandon " + r.argument()
	}
	d.report(f, causes...)
}

// checkSpec reports what the last run did not bring about, although it was successful.
func checkSpec(d *diagnosis, r *resource) {
	for _, c := range r.status.Conditions {
		if c.Status != metav1.ConditionTrue {
			continue
		}
		switch c.Type {
		case runstatus.ConditionDrifted:
			d.report(Finding{
				Severity: findings.SeverityWarning, Object: r.ref(), Reason: c.Type, Message: c.Message,
				Next: "kubectl collection rerun " + r.argument(),
			})
		case runstatus.ConditionFieldsIgnored:
			d.report(Finding{
				Severity: findings.SeverityInfo, Object: r.ref(), Reason: c.Type, Message: c.Message,
				Next: fmt.Sprintf("remove the fields, or install a version of the collection that has them: kubectl edit %s", r.argument()),
			})
		}
	}
}
