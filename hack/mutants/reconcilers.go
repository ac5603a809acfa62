package main

// ofReconcilers are faults of the order in which reconcilers do that, and of what status says.
var ofReconcilers = []mutation{
	{
		"Ready stays true in the write that names another archive", "(*OperatorCollectionReconciler).beginInstallation",
		`	status.SetReady(&now.Conditions, oc.Generation, waits, "")
`,
		`	_ = waits
`,
	},
	{
		"Ready stays true while kinds are not served", "(*OperatorCollectionReconciler).beginInstallation",
		"_ = r.describe(oc, scope, waits)",
		"_ = waits",
	},
	{
		"a SubOperatorConfig stays ready when its upgrade begins", "(*SubOperatorConfigReconciler).beginUpgrade",
		`	if !begins ||`,
		`	if begins ||`,
	},
	{
		"an operator stays in a namespace that is not mapped any more", "(*SubOperatorConfigReconciler).uninstallUnmapped",
		"if !terminating {",
		"if terminating {",
	},
	{
		"a conflict of two SubOperatorConfigs is not told", "(*SubOperatorConfigReconciler).withoutConflicts",
		"s.mappings, s.problems = free, append(s.problems, conflicts...)",
		`_ = free
	s.problems = append(s.problems, conflicts...)`,
	},
	{
		"a SubOperatorConfig does not wait for its collection", "(*SubOperatorConfigReconciler).Reconcile",
		`			r.awaitCollection,
`,
		"",
	},
	{
		"a SubOperatorConfig goes before its operator", "(*SubOperatorConfigReconciler).uninstallEverywhere",
		"return status.Join(errs...)",
		`_ = status.Join(errs...)
	return nil`,
	},
	{
		"a namespace is upgraded before its turn", "(*SubOperatorConfigReconciler).awaitTurn",
		"case upgrade == nil || upgrade.Digest != s.oc.Status.Artifact.Digest:",
		`case upgrade == nil || upgrade.Digest != s.oc.Status.Artifact.Digest:
		return nil
	case false:`,
	},
	{
		"an upgrade begins without a record", "(*SubOperatorConfigReconciler).Reconcile",
		`		r.beginUpgrade,
`,
		"",
	},
	{
		"a failed removal counts as done", "(*SubOperatorConfigReconciler).uninstall",
		`namespace != "" && err != nil`,
		"false && err != nil",
	},
}
