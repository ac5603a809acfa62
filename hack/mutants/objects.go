package main

// ofObjects are faults of what reads, writes and removes the objects of an installation, and of who may have them.
var ofObjects = []mutation{
	{
		"what appears after the dry run is adopted", "(*Applier).patch",
		"object.SetResourceVersion(noVersion)",
		"",
	},
	{
		"what replaces an object after it was read is changed", "(*Applier).patch",
		`if object.SetUID(live); live == "" {`,
		`if live == "" {`,
	},
	{
		"a foreign object is changed", "(*Applier).check",
		"case !ours(live):",
		"case false:",
	},
	{
		"a foreign object is deleted", "(*Applier).delete",
		"case !ours(live):",
		"case false:",
	},
	{
		"Secrets are deleted before the pods that use them", "(*Applier).Prune",
		"if makesPods(refs[i]) {",
		"if false {",
	},
	{
		"an object whose deletion failed counts as gone", "(*Applier).Prune",
		`if err != nil {
			errs`,
		`if err != nil && gone {
			errs`,
	},
	{
		"an object that others use is deleted", "(*Applier).delete",
		"err != nil || used",
		"err != nil",
	},
	{
		"a kind that is not served counts as one without resources", "CheckKindGone",
		`	return fmt.Errorf("%s: %w", crd, ErrNotServed)`,
		`	return nil`,
	},
	{
		"a failed dry run does not keep the other objects from being written", "(*Applier).Apply",
		`	if err != nil {
		return 0, err
	}
	written`,
		`	if err != nil {
		_ = err
	}
	written`,
	},
	{
		"what replaces an object after it was read is deleted", "(*Applier).delete",
		", client.Preconditions{UID: &uid}",
		", client.Preconditions{UID: &uid}, client.Preconditions{}",
	},
	{
		"an object that somebody has changed counts as applied", "(*Applier).recall",
		"known.state == state",
		`(known.state == state || state != "")`,
	},
	{
		"a namespace is used without its consent", "(*Resolver).usable",
		"if err := Consent(ctx, r.Client, from, namespace); err != nil {",
		"if err := Consent(ctx, r.Client, from, namespace); false {",
	},
	{
		"a namespace consents to all whose names begin like that of its own", "Consent",
		"strings.TrimSpace(allowed) == from",
		"strings.HasPrefix(strings.TrimSpace(allowed), from)",
	},
	{
		"two SubOperatorConfigs install in one namespace", "(*Resolver).WithoutConflicts",
		"return r.conflict(ctx, soc, id, namespace)",
		"if err := r.conflict(ctx, soc, id, namespace); !status.Is(err) { return err }; return nil",
	},
	{
		"a SubOperatorConfig without consent keeps another one out", "(*Resolver).conflict",
		"isFirst = err == nil",
		"",
	},
	{
		"an older SubOperatorConfig takes a namespace from the one that is installed there", "(*Resolver).conflict",
		" || InstalledIn(other, namespace) && !InstalledIn(soc, namespace)",
		"",
	},
	{
		"who owns a restored collection is decided by age", "precedes",
		`case client.ObjectKeyFromObject(a):
		return true`,
		`case client.ObjectKeyFromObject(a):
		return Older(a, b)`,
	},
	{
		"a namespace that is being deleted is used", "(*Resolver).usable",
		"terminating && namespace != from",
		"terminating && namespace == from",
	},
	{
		"a run is not told that its credential cannot be used", "(*Resolver).endpoint",
		`composed.Refusal = "CredentialInvalid: " + err.Error()`,
		"",
	},
	{
		"the credential that a mapping names for an endpoint is ignored", "credentialFor",
		`e.CredentialName != ""`,
		"false",
	},
	{
		"an installation is ready before its Deployment is available", "(*observer).evaluate",
		"if Available(deployment) {",
		"if true {",
	},
	{
		"an installation becomes ready by what the cache says", "(*observer).observe",
		"if wasReady {",
		"if true || wasReady {",
	},
	{
		"an operator is removed while its playbooks run", "(*installed).uninstall",
		"if err := i.awaitRuns(ctx, since); err != nil {",
		`if err := i.awaitRuns(ctx, since); false {
		_ = err`,
	},
	{
		"an operator that the other method installed is removed while its playbooks run", "(*installed).uninstallFormer",
		"if err := i.awaitRuns(ctx, since); err != nil {",
		`if err := i.awaitRuns(ctx, since); false {
		_ = err`,
	},
	{
		"permissions that nobody has granted are given", "(*Installer).Reconcile",
		"r.checkPermissions, ",
		"",
	},
	{
		"a namespace that does not allow the pod is tried", "(*Installer).Reconcile",
		"r.render, of(checkEnvironment)",
		"r.render",
	},
	{
		"an operator gets Secrets that nobody lets operators use", "(*Installer).Reconcile",
		`		concurrently(ctx, scopes, r.checkReferences)
`,
		"",
	},
	{
		"objects of the version before stay", "(*Installer).Reconcile",
		"r.prune, ",
		"",
	},
	{
		"resources whose playbook for deletion is gone never go", "(*Installer).Reconcile",
		"r.observe, r.releaseFinalizers",
		"r.observe",
	},
	{
		"the installation by the other method stays", "(*Installer).Reconcile",
		", r.uninstallFormer",
		"",
	},
	{
		"objects are applied before the inventory lists them", "(*Installer).Reconcile",
		`		r.record(ctx, scopes)
`,
		`		for _, s := range scopes {
			if s.err == nil {
				s.result.Status = s.recorded()
			}
		}
`,
	},
	{
		"objects of other SubOperatorConfigs are ours", "OwnedBy",
		"owner == client.ObjectKeyFromObject(soc)",
		`owner.Name != ""`,
	},
	{
		"a namespace whose operator could not be removed is forgotten", "removal",
		`if err != nil {
`,
		`if err != nil && soc == nil {
`,
	},
	{
		"a key is left to a SubOperatorConfig of another namespace", "isLeftTo",
		"owner.Namespace == soc.Namespace",
		`owner.Namespace != ""`,
	},
	{
		"playbooks start while an operator is removed", "(*installed).uninstallFormer",
		"if err := i.preventRuns(ctx, since); err != nil {",
		`if err := i.preventRuns(ctx, since); false {
		_ = err`,
	},
	{
		"permissions without a grant are given", "(*Grants).Check",
		"if len(missing) > 0 {",
		"if false {",
	},
	{
		"the grants of other collections count", "(*Source).scoped",
		"case scope.includes(of):",
		"case true:",
	},
	{
		"a grant for one namespace counts in all", "(*Grants).notGranted",
		"if each.appliesIn(role.Namespace) {",
		"if true {",
	},
	{
		"an error while the manager asks what it holds is ignored", "(*Grants).notHeld",
		"held, err := g.Held(ctx, role.Namespace)",
		`held, err := g.Held(ctx, role.Namespace)
	if err == nil {
		return nil, nil
	}`,
	},
	{
		"a withdrawn grant counts", "(*Source).Check",
		"found.(passed).grants == state && ",
		"",
	},
	{
		"shared grants count where only scoped ones do", "grants.(*Source).Read",
		"if s.RequireScoped {",
		"if false {",
	},
}
