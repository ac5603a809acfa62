package operatorcollection

import (
	"encoding/json"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/collection-operator/collection-operator/api/v2beta2"
)

const (
	// maxHistory is the number of versions in status.history.
	maxHistory = 10

	// byInterval and byUpload are the authors of versions that the spec did not ask for.
	byInterval, byUpload = "interval", "upload"
)

// Fields of the spec that say where the archive comes from, and what it is verified with.
var (
	locationFields     = []string{"f:collectionURL"}
	verificationFields = []string{"f:digest", "f:signatureSecret", "f:skipSignatureVerification"}
)

// recordVersion adds the accepted archive to status.history, unless it is the newest entry already. It is called before status names
// the archive.
func (s *importScope) recordVersion(oc *v2beta2.OperatorCollection) {
	accepted, history := s.Artifact, oc.Status.History
	if len(history) > 0 && history[0].Digest == accepted.Digest {
		return
	}
	if len(history) > 0 && history[0].Outcome == v2beta2.VersionInstalling {
		history[0].Outcome = v2beta2.VersionReplaced
	}
	entry := v2beta2.InstalledVersion{
		Version: s.collection.Version.String(), Digest: accepted.Digest, Size: accepted.Size,
		Time: metav1.Now().Rfc3339Copy(), By: authorOf(oc, accepted), Outcome: v2beta2.VersionInstalling,
	}
	history = slices.Insert(history, 0, entry)
	oc.Status.History = withinRoom(history[:min(len(history), maxHistory)], s.historyRoom)
}

// withinRoom leaves out the oldest entries whose archives do not fit into a number of bytes beside that of the newest. Nil means no limit.
func withinRoom(history []v2beta2.InstalledVersion, room *int64) []v2beta2.InstalledVersion {
	if room == nil {
		return history
	}
	left, counted := *room, map[string]bool{history[0].Digest: true}
	for i, entry := range history {
		if counted[entry.Digest] {
			continue
		}
		counted[entry.Digest] = true
		if left -= entry.Size; left < 0 {
			return history[:i]
		}
	}
	return history
}

// settleVersion records that the imported version is installed everywhere.
func settleVersion(now *v2beta2.OperatorCollectionStatus) {
	if len(now.History) > 0 && now.Artifact != nil && now.History[0].Digest == now.Artifact.Digest &&
		meta.IsStatusConditionTrue(now.Conditions, v2beta2.ConditionReady) {
		now.History[0].Outcome = v2beta2.VersionInstalled
	}
}

// authorOf says who asked for an archive that takes the place of the one in status.
func authorOf(oc *v2beta2.OperatorCollection, accepted *v2beta2.Artifact) string {
	location, verification := true, true
	// An archive that was imported before there was a history has the author of the spec.
	if before := oc.Status.Artifact; before != nil && before.Digest != accepted.Digest {
		wasLocation, wasVerification, _ := strings.Cut(before.SourceHash, "-")
		isLocation, isVerification, _ := strings.Cut(accepted.SourceHash, "-")
		location, verification = wasLocation != isLocation, wasVerification != isVerification
	}
	switch {
	case location || verification:
	case oc.Spec.CollectionURL == "":
		return byUpload
	case oc.Spec.Interval != nil:
		return byInterval
	}
	var changed []string
	if location {
		changed = append(changed, locationFields...)
	}
	if verification {
		changed = append(changed, verificationFields...)
	}
	if by := managerOf(oc.ManagedFields, changed); by != "" {
		return by
	}
	// Who removes a field does not own it.
	return managerOf(oc.ManagedFields, slices.Concat(locationFields, verificationFields))
}

// managerOf returns the field manager with the latest write among those that own one of these fields of the spec, or "". Of two that wrote
// in the same second, it is the one that owns fewer fields: the other one has created the object.
func managerOf(entries []metav1.ManagedFieldsEntry, owned []string) string {
	var latest *metav1.ManagedFieldsEntry
	owns := 0
	for i := range entries {
		entry := &entries[i]
		var fields struct {
			Spec map[string]json.RawMessage `json:"f:spec"`
		}
		if entry.Subresource != "" || entry.FieldsV1 == nil || json.Unmarshal(entry.FieldsV1.GetRawBytes(), &fields) != nil ||
			!slices.ContainsFunc(owned, func(name string) bool { _, owns := fields.Spec[name]; return owns }) {
			continue
		}
		if latest == nil || latest.Time.Before(entry.Time) || latest.Time.Equal(entry.Time) && len(fields.Spec) < owns {
			latest, owns = entry, len(fields.Spec)
		}
	}
	if latest == nil {
		return ""
	}
	return latest.Manager
}
