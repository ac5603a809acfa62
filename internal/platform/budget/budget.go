// Package budget decides whether an object may use more of something that is limited in each namespace and in all.
//
// What is used already is never taken away, also if a limit is lowered. Of the objects that wait, the oldest that fits comes
// first.
package budget

import (
	"fmt"
	"maps"
)

// Limits of one budget. A limit that is zero or less is none.
type Limits struct {
	// PerNamespace is the maximum of all objects of one namespace.
	PerNamespace int64
	// Total is the maximum of all namespaces.
	Total int64
}

// Items are amounts by a name. Items with the same name, such as an archive that two objects share, count once.
type Items map[string]int64

// Claim is what one object uses, and what it wants to use instead.
type Claim struct {
	Namespace string
	// Held is nil if the object uses nothing yet.
	Held Items
	// Wanted is nil if the object does not want anything else than it holds.
	Wanted Items
}

// Budget is something that is limited.
type Budget struct {
	Limits
	// Name of what is limited, in the plural, such as "kinds".
	Name string
	// Flag of the limit of all namespaces. That of a namespace has the suffix "-per-namespace".
	Flag string
	// Format formats an amount. It is nil for numbers.
	Format func(amount int64) string
}

// Error says which budget an object would exceed.
type Error struct{ message string }

func (e *Error) Error() string { return e.message }

// Check returns an *Error if what the object claims[own] wants does not fit. Claims are ordered from the oldest object to the
// youngest. An object that wants no more than it holds always fits.
func (b Budget) Check(claims []Claim, own int) error {
	total, each := Items{}, map[string]Items{}
	take := func(namespace string, items Items) {
		if each[namespace] == nil {
			each[namespace] = Items{}
		}
		maps.Copy(each[namespace], items)
		maps.Copy(total, items)
	}
	for i, claim := range claims {
		if i != own {
			take(claim.Namespace, claim.Held)
		}
	}
	for _, older := range claims[:own] {
		if older.Wanted != nil && b.exceeds(older, each[older.Namespace], total) == nil {
			take(older.Namespace, older.Wanted)
		}
	}
	return b.exceeds(claims[own], each[claims[own].Namespace], total)
}

func (b Budget) exceeds(claim Claim, namespace, total Items) error {
	for _, scope := range []struct {
		used       Items
		limit      int64
		name, flag string
	}{
		{namespace, b.PerNamespace, fmt.Sprintf("in namespace %q", claim.Namespace), b.Flag + "-per-namespace"},
		{total, b.Total, "in all namespaces", b.Flag},
	} {
		needs, used := scope.used.lacks(claim.Wanted), scope.used.Sum()
		if scope.limit <= 0 || used+needs <= scope.limit || needs <= scope.used.lacks(claim.Held) {
			continue
		}
		return &Error{fmt.Sprintf("the budget of %s %s is exceeded: %s of %s are used and %s more are needed: delete some that are not needed, or ask an administrator to raise %s",
			b.Name, scope.name, b.format(used), b.format(scope.limit), b.format(needs), scope.flag)}
	}
	return nil
}

func (b Budget) format(amount int64) string {
	if b.Format == nil {
		return fmt.Sprint(amount)
	}
	return b.Format(amount)
}

// MiB formats bytes, rounded up.
func MiB(bytes int64) string { return fmt.Sprintf("%d MiB", (bytes+1<<20-1)>>20) }

// Sum returns the sum of all amounts.
func (i Items) Sum() int64 {
	var sum int64
	for _, amount := range i {
		sum += amount
	}
	return sum
}

// lacks returns the sum of the items that are not among i.
func (i Items) lacks(items Items) int64 {
	var sum int64
	for name, amount := range items {
		if _, ok := i[name]; !ok {
			sum += amount
		}
	}
	return sum
}
