// Package intervals has how long the manager waits before it looks again at something that no watch reports, in one block. The
// values are those of production. Whoever starts the manager may give others, before it starts: specs give short ones.
package intervals

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

var (
	// Poll is for what is about to change and is not watched: an operator that is being removed, a Deployment of OLM's. Short enough
	// that nobody waits for it, long enough that a hundred of them cost an API server nothing.
	Poll = 5 * time.Second
	// Missing is for what a user has to provide: a Secret without our label, a grant, the namespace's consent. It is how long a user waits
	// at most after the correction, and what an object that stays wrong costs: a few reads each time.
	Missing = time.Minute
	// Conflict is for an object that somebody else has just changed: the cache has the change by then.
	Conflict = time.Second
	// RunGrace is how long the removal of an operator waits for running playbooks, before it deletes the pods, in which they have the grace
	// period of these: namespaces that are deleted must not hang for longer, and IBM's SDK waits 140 seconds.
	RunGrace = time.Minute
	// StorageSettles is how long a version is the storage version before custom resources are rewritten: until then, another API
	// server may write them in the old one.
	StorageSettles = time.Minute
	// OLM is how often the manager looks whether the Operator Lifecycle Manager was installed. Nobody installs it more than once.
	OLM = 30 * time.Second
	// Migration is how often custom resources are read while they are migrated by playbooks, which take seconds to minutes.
	Migration = 10 * time.Second
	// Resources is how often the custom resources of a namespace are read that a gradual upgrade has reached.
	Resources = 15 * time.Second
	// Grant is how long after a change of RBAC the API server's authorizer is assumed to know it.
	Grant = 2 * time.Second
	// GrantSettles is how long grants have not changed before a check of them is remembered: the API server may not know of a change at once.
	GrantSettles = 5 * time.Second
	// Copies is how often the other managers are asked for an archive that was uploaded: one that could not be reached when it was imported has
	// no copy, and nobody else makes it.
	Copies = 10 * time.Minute
	// FailedCheck is the longest delay before a failed check of a source is repeated, whatever spec.interval says.
	FailedCheck = 5 * time.Minute
	// AuthorityOverlap is the time between the distribution of a new authority to the runtime pods and its first certificate.
	AuthorityOverlap = time.Hour
	// Lease is the time after which another manager takes over if the leader has not renewed its lease. It is what OpenShift
	// recommends, as is LeaseRenewDeadline: the leader survives an API server that is not available for a minute and a half.
	Lease = 137 * time.Second
	// LeaseRenewDeadline is the time after which the leader ends if it cannot renew its lease.
	LeaseRenewDeadline = 107 * time.Second
	// LeaseRetry is how often a manager tries to acquire or renew the lease. After the leader has ended, another manager takes over within twice
	// that time.
	LeaseRetry = 5 * time.Second
)

// byName is what [Flag] sets.
var byName = map[string]*time.Duration{
	"poll": &Poll, "missing": &Missing, "conflict": &Conflict, "run-grace": &RunGrace, "storage-settles": &StorageSettles,
	"olm": &OLM, "migration": &Migration, "resources": &Resources, "grant": &Grant, "grant-settles": &GrantSettles, "copies": &Copies, "failed-check": &FailedCheck,
	"authority-overlap": &AuthorityOverlap, "lease": &Lease, "lease-renew-deadline": &LeaseRenewDeadline, "lease-retry": &LeaseRetry,
}

// Flag sets intervals from a list such as "missing=2s,poll=500ms". It must be set before the manager starts.
type Flag struct{}

// Set implements [pflag.Value].
func (Flag) Set(list string) error {
	for item := range strings.SplitSeq(list, ",") {
		name, value, _ := strings.Cut(item, "=")
		interval, known := byName[name]
		if !known {
			return fmt.Errorf("there is no interval %q: there are %s", name, strings.Join(slices.Sorted(maps.Keys(byName)), ", "))
		}
		duration, err := time.ParseDuration(value)
		if err != nil || duration <= 0 {
			return fmt.Errorf("interval %s: %q is not a positive duration", name, value)
		}
		*interval = duration
	}
	return nil
}

// String implements [pflag.Value]. It is empty, since the values of production are no default of a flag.
func (Flag) String() string { return "" }

// Type implements [pflag.Value].
func (Flag) Type() string { return "intervals" }
