package plan

import (
	"slices"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/collection-operator/collection-operator/api/operands/v1alpha1"
)

// Entry returns the entry of a resource in an inventory, without UID.
func (o *Object) Entry(id ID) v1alpha1.InventoryEntry {
	apiVersion, kind := o.Kind.ToAPIVersionAndKind()
	return v1alpha1.InventoryEntry{
		Registry: id.Registry.String(), Operand: id.Name, Origin: o.Origin,
		APIVersion: apiVersion, Kind: kind, Namespace: o.Key.Namespace, Name: o.Key.Name,
	}
}

// Is reports whether an entry of an inventory is about an operand.
func (id ID) Is(e v1alpha1.InventoryEntry) bool {
	return e.Registry == id.Registry.String() && e.Operand == id.Name
}

// Same reports whether two entries are about the same object, or the same mapping, whatever the version of its API.
func Same(a, b v1alpha1.InventoryEntry) bool {
	return a.Mapping == b.Mapping && a.Namespace == b.Namespace && a.Name == b.Name && groupKind(a) == groupKind(b)
}

func groupKind(e v1alpha1.InventoryEntry) schema.GroupKind {
	return schema.FromAPIVersionAndKind(e.APIVersion, e.Kind).GroupKind()
}

// Unwanted returns the entries of an inventory that are to be removed, in the order of the inventory. Absence of an OperandRegistry,
// an OperandConfig or an OperatorCollection removes nothing: entries of operands with a problem are kept.
func Unwanted(inventory []v1alpha1.InventoryEntry, operands []Operand) []v1alpha1.InventoryEntry {
	var unwanted []v1alpha1.InventoryEntry
	for _, e := range inventory {
		at := slices.IndexFunc(operands, func(o Operand) bool { return o.ID.Is(e) })
		if !Wants(operands, e) && (at < 0 || !operands[at].keeps(e)) {
			unwanted = append(unwanted, e)
		}
	}
	return unwanted
}

// keeps reports whether it is not known if an entry of the operand is wanted. Copies do not stay with those who may not have them.
func (o *Operand) keeps(e v1alpha1.InventoryEntry) bool {
	if o.Problem != nil {
		return e.Origin != v1alpha1.OriginBinding || o.Problem.Reason != v1alpha1.ReasonOutOfScope
	}
	return o.ConfigMissing && e.Origin == v1alpha1.OriginConfig || o.NoOp && e.Mapping != ""
}

func (o *Operand) wants(e v1alpha1.InventoryEntry) bool {
	if e.Mapping != "" {
		return slices.ContainsFunc(o.Installs, func(i Install) bool { return i.Is(e) })
	}
	return o.ID.Is(e) && slices.ContainsFunc(o.Objects, func(object Object) bool { return object.Is(e) })
}

// Is reports whether an entry of an inventory is a mapping that serves the place.
func (i Install) Is(e v1alpha1.InventoryEntry) bool {
	return e.Mapping == i.Namespace && e.Namespace == i.Collection.Namespace && e.Collection == i.Collection.Name
}

// Wants reports whether any of the operands wants what an entry is about. Operators are shared by operands of all OperandRegistries.
func Wants(operands []Operand, e v1alpha1.InventoryEntry) bool {
	return slices.ContainsFunc(operands, func(o Operand) bool { return o.Problem == nil && o.wants(e) })
}
