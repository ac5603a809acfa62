// Package rollout decides which namespaces may get another version of a collection, and when.
package rollout

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/collection-operator/collection-operator/api/v2beta2"
)

// Namespace is one in which the collection is installed.
type Namespace struct {
	Name string
	// Digest is that of the archive that its operator is configured to run.
	Digest string
	// Ready is true if the operator is available, and up to date for Digest.
	Ready bool
	// ReadySince is when it became ready, or zero if that is not known.
	ReadySince time.Time
	// NeedsAttention is true if it is not ready, and not expected to become ready without a change.
	NeedsAttention bool
	// Message is why it is not ready, or "".
	Message string
	// Failing describes the custom resources that began to fail with the version, or is "".
	Failing string
	// Running are the names of the custom resources whose first playbooks with the version run, or "".
	Running string
	// UserManaged is true if a user decides when the operator is replaced. Other namespaces do not wait for it.
	UserManaged bool
}

// Strategy limits which namespaces begin.
type Strategy struct {
	// MaxUnavailable is the number of namespaces that may be upgraded at the same time, at least 1.
	MaxUnavailable int
	// Paused lets no further namespace begin.
	Paused bool
	// HealthyFor is the time for which a namespace must be ready before another one begins. Unless it is zero, the first
	// playbooks with the version that run then must have ended, too: before that, nobody knows whether the custom resources fail.
	HealthyFor time.Duration
}

// Plan is what a decision depends on.
type Plan struct {
	// Digest is that of the archive that the upgrade is to.
	Digest     string
	Namespaces []Namespace
	Strategy   Strategy
	// Began are the namespaces that began this upgrade.
	Began []string
	// Interrupted are the namespaces that began the upgrade that this one takes the place of. Those that are not ready come first.
	Interrupted []string
	Now         time.Time
	// Interval is how often a decision is made that depends on custom resources: nothing reports when they change.
	Interval time.Duration
}

// Decision is which namespaces may be upgraded.
type Decision struct {
	// Over is true if the version runs in all namespaces. Then nothing else but the numbers is set.
	Over bool
	// Began are the namespaces that may be upgraded, sorted, including those that are.
	Began []string
	// Total is the number of namespaces, and Upgraded that of those in which the version runs.
	Total, Upgraded int
	// Stopped is true if a namespace needs attention before others begin.
	Stopped bool
	// Message is what the upgrade waits for. It is the same as long as that is.
	Message string
	// Again is when to decide again at the latest, if nothing changes. Zero means that only a change matters.
	Again time.Duration
}

// state of a namespace in an upgrade.
type state int

const (
	waiting    state = iota // It has not begun.
	upgrading               // It has begun, and is not ready with the version yet.
	settling                // It is ready with the version, but not for long enough, or its playbooks run.
	upgraded                // It is ready with the version.
	troubled                // It has begun, and needs attention.
	userPaced               // It has begun, and a user decides when it goes on.
	stateCount              // The number of states.
)

// Next decides which namespaces may be upgraded now. Namespaces that began stay so.
func Next(plan Plan) Decision {
	in := plan.group()
	decision := Decision{Total: len(plan.Namespaces)}
	for _, namespace := range plan.Namespaces {
		if plan.runs(namespace) {
			decision.Upgraded++
		}
	}
	if decision.Over = decision.Upgraded == decision.Total; decision.Over {
		return decision
	}
	left := in[waiting]
	decision.Stopped = len(in[troubled]) > 0
	if free := plan.Strategy.MaxUnavailable - len(in[upgrading]) - len(in[settling]); !decision.Stopped && !plan.Strategy.Paused && free > 0 {
		n := count(left, free)
		for _, namespace := range left[:n] {
			namespace.Message, namespace.Failing = "", "" // They are about the version that the namespace has.
			is := upgrading
			if namespace.UserManaged {
				is = userPaced
			}
			in[is] = append(in[is], namespace)
		}
		left = left[n:]
	}
	for _, namespace := range plan.Namespaces {
		if !slices.ContainsFunc(left, func(n Namespace) bool { return n.Name == namespace.Name }) {
			decision.Began = append(decision.Began, namespace.Name)
		}
	}
	slices.Sort(decision.Began)
	decision.Message = plan.message(in, left)
	decision.Again = plan.again(in, left)
	return decision
}

// DependsOnResources reports whether it matters to the next decision whether custom resources in the namespaces that run the version
// fail.
func (p *Plan) DependsOnResources() bool {
	in := p.group()
	return len(in[waiting]) > 0 && len(in[troubled]) == 0 && len(in[upgrading]) < p.Strategy.MaxUnavailable && !p.Strategy.Paused
}

// group returns the namespaces by state, each in the order in which they begin.
func (p *Plan) group() (in [stateCount][]Namespace) {
	for _, namespace := range slices.SortedFunc(slices.Values(p.Namespaces), p.compare) {
		is := p.stateOf(namespace)
		in[is] = append(in[is], namespace)
	}
	return in
}

// count returns how many of the namespaces that wait, in order, may begin if free of them may be upgraded at the same time. Those that
// a user upgrades do not count.
func count(waiting []Namespace, free int) int {
	for i, namespace := range waiting {
		if namespace.UserManaged {
			continue
		}
		if free == 0 {
			return i
		}
		free--
	}
	return len(waiting)
}

func (p *Plan) runs(namespace Namespace) bool { return namespace.Digest == p.Digest && namespace.Ready }

func (p *Plan) stateOf(namespace Namespace) state {
	switch {
	case namespace.Digest != p.Digest && !slices.Contains(p.Began, namespace.Name):
		return waiting
	case namespace.Digest != p.Digest && namespace.UserManaged:
		return userPaced
	case p.runs(namespace) && namespace.Failing != "", !p.runs(namespace) && namespace.NeedsAttention:
		return troubled
	case !p.runs(namespace):
		return upgrading
	case p.remaining(namespace) > 0, p.awaitsPlaybooks(namespace):
		return settling
	}
	return upgraded
}

// awaitsPlaybooks reports whether a namespace has been ready for long enough, and playbooks have yet to show that its custom resources succeed.
func (p *Plan) awaitsPlaybooks(namespace Namespace) bool {
	return p.Strategy.HealthyFor > 0 && namespace.Running != "" && p.remaining(namespace) <= 0
}

// remaining is the time until a namespace has been ready for long enough.
func (p *Plan) remaining(namespace Namespace) time.Duration {
	if namespace.ReadySince.IsZero() {
		return p.Strategy.HealthyFor
	}
	return namespace.ReadySince.Add(p.Strategy.HealthyFor).Sub(p.Now)
}

// compare orders namespaces by name. Those in which the former upgrade was interrupted, and that are not ready, come first.
func (p *Plan) compare(a, b Namespace) int {
	if first, other := p.wasInterrupted(a), p.wasInterrupted(b); first != other {
		if first {
			return -1
		}
		return 1
	}
	return strings.Compare(a.Name, b.Name)
}

func (p *Plan) wasInterrupted(namespace Namespace) bool {
	return !namespace.Ready && slices.Contains(p.Interrupted, namespace.Name)
}

// message is what the upgrade waits for, the most important first. Those that are left have not begun.
func (p *Plan) message(in [stateCount][]Namespace, left []Namespace) string {
	switch {
	case len(in[troubled]) > 0:
		return "stopped at " + describe(in[troubled])
	case len(in[upgrading]) > 0:
		return "waiting for " + describe(in[upgrading])
	case len(left) > 0 && p.Strategy.Paused:
		return fmt.Sprintf("paused before namespace %s: set spec.upgrade.strategy.pause to false to go on", left[0].Name)
	case len(left) > 0 && len(in[settling]) > 0 && p.awaitsPlaybooks(in[settling][0]):
		return fmt.Sprintf("namespace %s begins when these playbooks have ended: %s", left[0].Name, in[settling][0].Running)
	case len(left) > 0 && len(in[settling]) > 0:
		return fmt.Sprintf("namespace %s begins when namespace %s has been ready for %s", left[0].Name, in[settling][0].Name, p.Strategy.HealthyFor)
	case len(in[userPaced]) > 0:
		return "waiting for the users of Subscriptions in " + describe(in[userPaced])
	}
	return ""
}

// again is when the decision may be another one without a change of an installation.
func (p *Plan) again(in [stateCount][]Namespace, left []Namespace) time.Duration {
	if len(left) == 0 || p.Strategy.Paused {
		return 0
	}
	if slices.ContainsFunc(in[troubled], func(n Namespace) bool { return n.Failing != "" }) {
		return p.Interval
	}
	var again time.Duration
	for _, namespace := range in[settling] {
		remaining := min(p.remaining(namespace), p.Interval)
		if p.awaitsPlaybooks(namespace) {
			remaining = p.Interval
		}
		if again == 0 || remaining < again {
			again = remaining
		}
	}
	return again
}

// maxDescribed bounds the namespaces that a message names.
const maxDescribed = 3

func describe(namespaces []Namespace) string {
	var texts []string
	for _, namespace := range namespaces[:min(len(namespaces), maxDescribed)] {
		text := "namespace " + namespace.Name
		if why := strings.Join(slices.DeleteFunc([]string{namespace.Message, namespace.Failing}, func(s string) bool { return s == "" }), "; "); why != "" {
			text += ": " + why
		}
		texts = append(texts, text)
	}
	if more := len(namespaces) - maxDescribed; more > 0 {
		texts = append(texts, fmt.Sprintf("and %d more", more))
	}
	return strings.Join(texts, "; ")
}

// HasBegun reports whether an upgrade of an OperatorCollection, or the one before it, has begun in a namespace.
func HasBegun(oc *v2beta2.OperatorCollection, namespace string) bool {
	return oc.Status.Upgrade != nil && slices.Contains(oc.Status.Upgrade.Namespaces, namespace)
}

// IsUserManaged reports whether the Operator Lifecycle Manager installed the operator for a Subscription that the manager did not create.
// The manager removes no other operator for a version, and its own Subscription first.
func IsUserManaged(soc *v2beta2.SubOperatorConfig, installation v2beta2.InstallationStatus) bool {
	return installation.Install == v2beta2.InstallOLM && installation.RemovalTime == nil && !slices.ContainsFunc(soc.Status.Inventory, func(ref v2beta2.ObjectReference) bool {
		return ref.Kind == "Subscription" && ref.Namespace == installation.Namespace
	})
}

// ProgressOf describes an upgrade that is going on.
func ProgressOf(oc *v2beta2.OperatorCollection) string {
	upgrade := oc.Status.Upgrade
	text := fmt.Sprintf("version %s runs in %d of %d namespaces", oc.Status.Collection.Version, upgrade.Upgraded, upgrade.Total)
	if upgrade.Message != "" {
		text += "; " + upgrade.Message
	}
	return text
}
