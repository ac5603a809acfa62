package main

// ofReconcilers are faults of reconcilers: of the order of their steps, of what they wait for, and of what status says.
var ofReconcilers = []mutation{
	{
		"Ready stays true in the write that names another archive", "operatorcollection.(*acceptance).beginInstallation",
		`	status.SetReady(&now.Conditions, oc.Generation, waits, "")
`,
		`	_ = waits
`,
	},
	{
		"Ready stays true while kinds are not served", "operatorcollection.(*acceptance).beginInstallation",
		"_ = a.status.describe(oc, scope, waits)",
		"_ = waits",
	},
	{
		"a SubOperatorConfig stays ready when its upgrade begins", "install.(*scope).begins",
		`s.before.Digest != "" && `,
		`s.before.Digest == "" && `,
	},
	{
		"an upgrade begins without a record", "install.(*Installer).record",
		"begins >= 0 {",
		"begins >= len(scopes) {",
	},
	{
		"an operator stays in a namespace that is not mapped any more", "suboperatorconfig.(*remover).uninstallUnmapped",
		"if !terminating {",
		"if terminating {",
	},
	{
		"a conflict of two SubOperatorConfigs is not told", "suboperatorconfig.(*Reconciler).withoutConflicts",
		"o.mappings, o.problems = free, append(o.problems, conflicts...)",
		`_ = free
	o.problems = append(o.problems, conflicts...)`,
	},
	{
		"a SubOperatorConfig does not wait for its collection", "suboperatorconfig.(*Reconciler).finalize",
		"remover.awaitCollection(ctx, soc, o.mappings)",
		"remover.keep(ctx, soc, nil)",
	},
	{
		"a SubOperatorConfig goes before its operator", "suboperatorconfig.uninstallEverywhere",
		"return results, status.Join(errs...)",
		`_ = status.Join(errs...)
	return results, nil`,
	},
	{
		"a namespace is upgraded before its turn", "suboperatorconfig.awaitTurn",
		"case upgrade == nil || upgrade.Digest != oc.Status.Artifact.Digest:",
		`case upgrade == nil || upgrade.Digest != oc.Status.Artifact.Digest:
		return nil
	case false:`,
	},
	{
		"an operator is removed from a namespace that is not selected any more", "suboperatorconfig.(*remover).uninstall",
		`namespace != "" && err != nil`,
		"false && err != nil",
	},
	{
		"a deletion does not wait for custom resources", "(*collectionFinalizer).releaseInstances",
		"if err != nil || len(items) == 0 {",
		"if err != nil || len(items) >= 0 {",
	},
	{
		"custom resources that another collection takes over are deleted", "(*collectionFinalizer).releaseInstances",
		"err != nil || succeeded {",
		"err != nil || false && succeeded {",
	},
	{
		"an OperatorCollection goes before its SubOperatorConfigs", "(*collectionFinalizer).removeSubOperatorConfigs",
		"case len(names) > 0:",
		"case false:",
	},
	{
		"a CRD is deleted because a cache lacks its OperatorCollection", "customresourcedefinition.(*unusedRemover).removeUnused",
		"if err := r.reader.List(ctx, live); err != nil {",
		"if err := r.client.List(ctx, live); err != nil {",
	},
	{
		"a CRD is deleted with custom resources", "customresourcedefinition.(*unusedRemover).remove",
		"if err == nil && len(items) == 0 {",
		"if err == nil {",
	},
	{
		"any namespace may publish a version of a collection", "operatorcollection.(*claims).checkClaim",
		"if crd.Publish(",
		"if true || crd.Publish(",
	},
	{
		"Imported is true before kinds are served", "operatorcollection.(*Reconciler).reconcile",
		`		acceptance.awaitServed,
`,
		"",
	},
	{
		"an archive that is refused stays in the store", "operatorcollection.(*acceptance).removeRefused",
		"if refused {",
		"if false {",
	},
	{
		"the source brings an old version back", "operatorcollection.(*claims).checkOrder",
		"!is.Version.LessThan(version)",
		"(true || is.Version.LessThan(version))",
	},
	{
		"other content at the same URL is accepted", "intake.(*Source).EnsureArtifact",
		"file.Digest != digest.Digest(known.Artifact.Digest) &&",
		"false &&",
	},
	{
		"an upgrade that breaks custom resources is accepted", "operatorcollection.(*upgrades).checkUpgrade",
		"if !upgradecheck.AcceptsBreaking(oc) {",
		"if false {",
	},
	{
		"an outage ends in the state before status says so", "(*probeMemory).mayRecover",
		"(reachable.Status == metav1.ConditionTrue ||",
		"(true || reachable.Status == metav1.ConditionTrue ||",
	},
	{
		"a state that is not valid is replaced", "zosendpoint.(*stateStore).read",
		"return secret, state, err",
		`if err != nil {
		state, err = &endpoint.State{}, nil
	}
	return secret, state, err`,
	},
	{
		"a host key that was pinned counts for another host", "zosendpoint.spec.knownKeys",
		"e.Status.PinnedFor != mapping.Address(e)",
		"false && e.Status.PinnedFor != mapping.Address(e)",
	},
	{
		"a restored endpoint is probed before its host key counts", "zosendpoint.restorePinned",
		"if e.Status.ObservedGeneration != 0 ||",
		"if e.Status.ObservedGeneration >= 0 ||",
	},
	{
		"the place of a pod that runs is given away", "zosendpoint.(*stateStore).goneHolders",
		"pods[holder.Pod] = err != nil ||",
		"pods[holder.Pod] = true || err != nil ||",
	},
	{
		"a SubOperatorConfig is deleted because a cache lacks its Subscription", "subscription.(*Reconciler).removeAbandoned",
		"if live.UID == made {",
		"if false {",
	},
}
