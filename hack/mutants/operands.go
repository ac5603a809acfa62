package main

// ofOperands are faults of what installs, gives and removes what OperandRequests ask for.
var ofOperands = []mutation{
	{
		"what is created for a request is not recorded before", "(*RequestReconciler).reconcile",
		`		r.record,
`,
		"",
	},
	{
		"what is missing in the cache only is removed", "(*RequestReconciler).remove",
		"if err := r.confirm(ctx, s); err != nil {",
		"if err := r.confirm(ctx, s); false {\n\t\treturn err\n\t}\n\tif s.confirmed = nil; false {\n\t\tvar err error",
	},
	{
		"whoever writes our annotation gives a resource away", "isCreated",
		"plan.IsApplied(live, owner)",
		"live.GetAnnotations()[v1alpha1.AnnotationOperand] == owner",
	},
	{
		"a resource that appears while it is created is taken over", "(*RequestReconciler).applyObject",
		"if apierrors.IsAlreadyExists(err) {",
		"if err = client.IgnoreAlreadyExists(err); false {",
	},
	{
		"what replaces a resource after it was read is changed by a request", "(*RequestReconciler).applyObject",
		"applied.SetUID(live.GetUID())",
		"",
	},
	{
		"what replaces a resource while it is deleted is deleted", "(*RequestReconciler).removeObject",
		", client.Preconditions{UID: &uid})",
		")\n\t\t_ = uid",
	},
	{
		"a request gives away what another one has for another operand", "(*RequestReconciler).recordedUID",
		"&& !other.agrees(e)",
		"&& false",
	},
	{
		"an operator is removed that somebody else uses", "(*RequestReconciler).removeMapping",
		"if users, err := r.usersOf(ctx, s, e); err != nil || len(users) > 0 {",
		"if users, err := r.usersOf(ctx, s, e); err != nil {",
	},
	{
		"an operator is removed before the resources that need it", "isNeeded",
		"if rankOf(before) >= rankOf(e) || s.entry(before) == nil {",
		"if true {",
	},
	{
		"a Secret is removed before what needs it", "(*RequestReconciler).remove",
		"blocked[plan.IDOf(e)] = kind",
		"_ = kind",
	},
	{
		"what other requests want is removed", "(*RequestReconciler).takes",
		"return plan.Wants(other.operands, e) || plan.MayWant(other.operands, e), nil",
		"return false, nil",
	},
	{
		"what is handed over goes with the other request unnoticed", "(*RequestReconciler).handOver",
		"controllerutil.AddFinalizer(other.request, ",
		"controllerutil.AddFinalizer(other.request.DeepCopy(), ",
	},
	{
		"a namespace gets an operator without its consent", "(*RequestReconciler).resolve",
		"err := r.checkConsent(ctx, plan.AnnotationConsent, i.soc.Namespace, wanted.Namespace)",
		"var err error",
	},
	{
		"a namespace gets resources of an OperandConfig without its consent", "(*RequestReconciler).checkPlace",
		"if object.Origin != v1alpha1.OriginConfig {",
		"if true {",
	},
	{
		"a status reveals values of another namespace", "(*scope).withoutValues",
		"if e == nil || object.Key.Namespace == s.request.Namespace {",
		"if true {",
	},
	{
		"tokens of ServiceAccounts are copied", "(*RequestReconciler).fill",
		"kind == string(corev1.SecretTypeServiceAccountToken)",
		`kind == "none" + string(corev1.SecretTypeServiceAccountToken)`,
	},
	{
		"a copy that is revoked stays with whoever keeps it", "(*RequestReconciler).isKept",
		"if e.Origin == v1alpha1.OriginBinding {",
		"if false {",
	},
	{
		"a resource is created before its operator runs", "(*RequestReconciler).ensureObject",
		"o.phase.OperatorPhase != v1alpha1.OperatorRunning && object.Origin",
		"false && object.Origin",
	},
	{
		"a Subscription goes before the version that came of it is recorded", "(*RequestReconciler).removeSubscription",
		"if err := r.recordCSVs(ctx, s, e, csvs); err != nil {",
		"if false {",
	},
	{
		"a version is removed to which somebody else has subscribed", "(*RequestReconciler).removeCSV",
		"if uses(&subscriptions.Items[i], e) {",
		"if uses(&subscriptions.Items[i], e) && false {",
	},
	{
		"an OperatorGroup is removed that others use", "(*RequestReconciler).removeGroup",
		`if list.Items[i].Labels[operatorsv1alpha1.CopiedLabelKey] == "" {`,
		`if list.Items[i].Labels[operatorsv1alpha1.CopiedLabelKey] == "none" {`,
	},
	{
		"whoever may not see who uses an operator removes it", "(*RequestReconciler).usersIn",
		"if len(commands) > 0 {",
		"if false {",
	},
}
