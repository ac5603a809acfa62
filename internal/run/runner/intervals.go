package runner

import "time"

// Intervals are the times that the gate waits, or asks others to wait. Whoever starts it decides them.
type Intervals struct {
	// Retry is when ansible-operator asks again if a decision was impossible: the API server is away, or another pod has the lock.
	Retry time.Duration
	// Conflict is when it asks again if the resource has changed while the decision was made.
	Conflict time.Duration
	// Visible is how long a run waits for a brief reason before status says so.
	Visible time.Duration
	// TicketGrace is how much later than announced a waiting run may ask again without losing its turn, and TicketLifetime how much
	// later its ticket is removed.
	TicketGrace, TicketLifetime time.Duration
	// Poll is how often the report of a run, the resource and the pod are read, and Observe how often the report is until it says whether
	// the run is connected.
	Poll, Observe time.Duration
	// Progress is the shortest time between two writes of the current task.
	Progress time.Duration
	// Grace is the time between SIGTERM and SIGKILL.
	Grace time.Duration
	// Persist is how long the outcome of a run is tried to be written, with delays from PersistRetry to PersistMaxRetry.
	Persist, PersistRetry, PersistMaxRetry time.Duration
	// Reserve is how long before the end of its pod a run is ended, and ReserveGrace the time between SIGTERM and SIGKILL then.
	Reserve, ReserveGrace time.Duration
}

// DefaultIntervals are those of operators.
func DefaultIntervals() Intervals {
	return Intervals{
		Retry:    10 * time.Second, // An API server that is overloaded gets no more than six requests per minute and resource.
		Conflict: time.Second,      // The watch of ansible-operator, whose cache was behind, needs less.
		Visible:  5 * time.Second,  // Most of such waits end before, and cost two writes less.
		// ansible-operator starts what is due late if all of its workers are busy. A ticket is kept longer than it counts, because
		// its time tells since when the run waits.
		TicketGrace: 2 * time.Second, TicketLifetime: time.Minute,
		// A cancelled run ends after that, at the cost of two requests. What a logon shows must be known before others try: the report
		// is a file.
		Poll: 5 * time.Second, Observe: time.Second,
		Progress: 10 * time.Second, // Thousands of tasks must not become thousands of writes.
		Grace:    20 * time.Second, // Ansible ends its workers and its connections.
		// An API server may be away while it is upgraded. After that the outcome is in the journal.
		Persist: 10 * time.Minute, PersistRetry: 200 * time.Millisecond, PersistMaxRetry: 5 * time.Second,
		// ansible-operator ends ten seconds before the pod and with it the container, and the outcome has to be written before.
		Reserve: 20 * time.Second, ReserveGrace: 3 * time.Second,
	}
}
