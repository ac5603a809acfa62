package model

import "slices"

// LoaderKeys are the keys that Load knows, by what has them.
var LoaderKeys = map[string][]string{
	"root":            slices.Concat(rootKeys, rootExtensions),
	"icon":            iconKeys,
	"resource":        slices.Concat(resourceKeys, resourceExtensions),
	"variable":        varKeys,
	"object variable": varKeys,
	"policy rule":     ruleKeys,
}
