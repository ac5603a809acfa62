package metrics

import (
	"slices"
	"strconv"

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
