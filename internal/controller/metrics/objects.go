package metrics

import (
	"slices"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/collection-operator/collection-operator/api/v2beta2"
)

var (
	collections = describe("collections", "OperatorCollections by condition. The collection is its domain/name once it is imported.",
		labelNamespace, labelCollection, labelCondition, labelStatus, labelReason)
	configs = describe("suboperatorconfigs", "SubOperatorConfigs by condition. The collection is its domain/name once it is imported.",
		labelNamespace, labelCollection, labelCondition, labelStatus, labelReason)
	installations = describe("installations", "Installations of collections by the namespace in which the operator runs. The method is OLM or Direct, or empty before one is chosen.",
		labelNamespace, labelCollection, labelMethod, labelReady, labelReason)
	zosEndpoints = describe("endpoints", "ZosEndpoints by condition.", labelNamespace, labelCondition, labelStatus, labelReason)
)

// conditionTypes are those that are counted: a status may have others only if somebody else wrote it.
var conditionTypes = []string{
	v2beta2.ConditionReady, v2beta2.ConditionReconciling, v2beta2.ConditionStalled, v2beta2.ConditionImported, v2beta2.ConditionInstalled,
	v2beta2.ConditionConformant, v2beta2.ConditionPublished, v2beta2.ConditionUpgradeBlocked, v2beta2.ConditionMigrated,
	v2beta2.ConditionUploadRefused,
	v2beta2.ConditionReachable, v2beta2.ConditionCredentialAccepted,
}

// maxReason is the length of the longest reason that is a label. Ours are shorter.
const maxReason = 40

// reasonOther is the label of reasons that are longer.
const reasonOther = "Other"

func reasonLabel(reason string) string {
	if len(reason) > maxReason {
		return reasonOther
	}
	return reason
}

// labels of a series. Unused ones are empty.
type labels [5]string

// counts is a number of objects for the labels of a series.
type counts struct {
	of map[labels]int
	// length is the number of labels.
	length int
}

func (c *counts) add(values ...string) {
	var key labels
	c.length = copy(key[:], values)
	if c.of == nil {
		c.of = map[labels]int{}
	}
	c.of[key]++
}

func (c *counts) addConditions(conditions []metav1.Condition, object ...string) {
	for _, condition := range conditions {
		if slices.Contains(conditionTypes, condition.Type) {
			c.add(append(slices.Clone(object), condition.Type, string(condition.Status), reasonLabel(condition.Reason))...)
		}
	}
}

func (c *counts) send(to chan<- prometheus.Metric, description *prometheus.Desc) {
	for key, count := range c.of {
		gauge(to, description, float64(count), key[:c.length]...)
	}
}

func countCollections(ocs []v2beta2.OperatorCollection) *counts {
	c := &counts{}
	for i := range ocs {
		collection := ""
		if imported := ocs[i].Status.Collection; imported != nil {
			collection = imported.Domain + "/" + imported.Name
		}
		c.addConditions(ocs[i].Status.Conditions, ocs[i].Namespace, collection)
	}
	return c
}

func countConfigs(socs []v2beta2.SubOperatorConfig) *counts {
	c := &counts{}
	for i := range socs {
		c.addConditions(socs[i].Status.Conditions, socs[i].Namespace, collectionOf(&socs[i]))
	}
	return c
}

func countInstallations(socs []v2beta2.SubOperatorConfig) *counts {
	c := &counts{}
	for i := range socs {
		for _, installation := range socs[i].Status.Installations {
			c.add(installation.Namespace, collectionOf(&socs[i]), string(installation.Install), strconv.FormatBool(installation.Ready),
				reasonLabel(installation.Reason))
		}
	}
	return c
}

func collectionOf(soc *v2beta2.SubOperatorConfig) string {
	if soc.Status.Collection == nil {
		return ""
	}
	return soc.Status.Collection.Domain + "/" + soc.Status.Collection.Name
}

func countEndpoints(endpoints []v2beta2.ZosEndpoint) *counts {
	c := &counts{}
	for i := range endpoints {
		c.addConditions(endpoints[i].Status.Conditions, endpoints[i].Namespace)
	}
	return c
}

// Endpoint is what is known about a ZosEndpoint that is probed.
type Endpoint struct {
	Namespace, Name string
	// Reachable is true if the last probe was answered by the known host, and no run has failed to connect since.
	Reachable bool
	// Answered is when this manager's last successful probe ended, or zero, and Took the time that it took.
	Answered time.Time
	Took     time.Duration
	// Held is true if no run starts because of spec.hold.
	Held bool
	// Refused is true while the security domain refuses a credential.
	Refused bool
	// Limit is the maximum number of concurrent runs on the system, or zero if there is none. Only then Running is the number of
	// these, and Waiting that of the operators which wait for one of them to end.
	Limit, Running, Waiting int
}

var (
	endpointReachable = describe("endpoint_reachable", "1 if the ZosEndpoint answered the last probe and no run has failed to connect since, else 0.",
		labelNamespace, labelEndpoint)
	endpointSeconds = describe("endpoint_probe_duration_seconds", "Time that the last successful probe of the ZosEndpoint took.",
		labelNamespace, labelEndpoint)
	endpointAnswered = describe("endpoint_last_success_timestamp_seconds", "Time at which the ZosEndpoint last answered a probe of the present leader.",
		labelNamespace, labelEndpoint)
	endpointHeld = describe("endpoint_held", "1 for a ZosEndpoint with spec.hold: no run starts.",
		labelNamespace, labelEndpoint)
	endpointRefused = describe("endpoint_credential_refused", "1 while the security domain of the ZosEndpoint refuses a credential, else 0.",
		labelNamespace, labelEndpoint)
	endpointLimit = describe("endpoint_run_limit", "Maximum number of concurrent runs on the system of the ZosEndpoint, if it has one.",
		labelNamespace, labelEndpoint)
	endpointRunning = describe("endpoint_running_runs", "Runs on the system of the ZosEndpoint that count against its limit.",
		labelNamespace, labelEndpoint)
	endpointWaiting = describe("endpoint_waiting_operators", "Operators whose runs wait for a free slot on the system of the ZosEndpoint.",
		labelNamespace, labelEndpoint)
)

func (e *Endpoint) send(to chan<- prometheus.Metric) {
	set := func(description *prometheus.Desc, value float64) { gauge(to, description, value, e.Namespace, e.Name) }
	set(endpointReachable, number(e.Reachable))
	set(endpointRefused, number(e.Refused))
	if !e.Answered.IsZero() {
		set(endpointAnswered, seconds(e.Answered))
		set(endpointSeconds, e.Took.Seconds())
	}
	if e.Held {
		set(endpointHeld, 1)
	}
	if e.Limit > 0 {
		set(endpointLimit, float64(e.Limit))
		set(endpointRunning, float64(e.Running))
		set(endpointWaiting, float64(e.Waiting))
	}
}

// Budget is how much is used of something that is limited. A limit of zero is none.
type Budget struct {
	// Name is that of the flag with its limit, in lower case with underscores and without max, such as stored_bytes.
	Name string
	// Used in all namespaces, and Limit of that.
	Used, Limit int64
	// PerNamespace is what is used in each namespace, and NamespaceLimit the limit of that.
	PerNamespace   map[string]int64
	NamespaceLimit int64
}

var (
	budgetUsed           = describe("budget_used", "What is used of a budget in all namespaces.", labelBudget)
	budgetLimit          = describe("budget_limit", "Limit of a budget in all namespaces.", labelBudget)
	namespaceBudgetUsed  = describe("namespace_budget_used", "What is used of a budget in one namespace.", labelBudget, labelNamespace)
	namespaceBudgetLimit = describe("namespace_budget_limit", "Limit of a budget in each namespace.", labelBudget)
)

func sendBudgets(to chan<- prometheus.Metric, budgets []Budget) {
	for _, b := range budgets {
		gauge(to, budgetUsed, float64(b.Used), b.Name)
		if b.Limit > 0 {
			gauge(to, budgetLimit, float64(b.Limit), b.Name)
		}
		for namespace, used := range b.PerNamespace {
			gauge(to, namespaceBudgetUsed, float64(used), b.Name, namespace)
		}
		if b.NamespaceLimit > 0 {
			gauge(to, namespaceBudgetLimit, float64(b.NamespaceLimit), b.Name)
		}
	}
}
