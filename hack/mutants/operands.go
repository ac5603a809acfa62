package main

// ofOperands are faults of what installs, gives and removes what OperandRequests ask for.
var ofOperands = []mutation{
	{
		"what is created for a request is not recorded before", "operandrequest.(*Reconciler).reconcile",
		`		r.record,
`,
		"",
	},
	{
		"what is missing in the cache only is removed", "(*removal).remove",
		"if err := r.confirm(ctx, s); err != nil {",
		"if err := r.confirm(ctx, s); false {\n\t\treturn err\n\t}\n\tif s.confirmed = nil; false {\n\t\tvar err error",
	},
	{
		"whoever writes our annotation gives a resource away", "isCreated",
		"plan.IsApplied(live, owner)",
		"live.GetAnnotations()[v1alpha1.AnnotationOperand] == owner",
	},
	{
		"a resource that appears while it is created is taken over", "(*resources).apply",
		"if apierrors.IsAlreadyExists(err) {",
		"if err = client.IgnoreAlreadyExists(err); false {",
	},
	{
		"what replaces a resource after it was read is changed by a request", "(*resources).apply",
		"applied.SetUID(live.GetUID())",
		"",
	},
	{
		"what replaces a resource while it is deleted is deleted", "(*deleter).delete",
		", client.Preconditions{UID: &uid})",
		")\n\t\t_ = uid",
	},
	{
		"a request gives away what another one has for another operand", "(*scope).recordedUID",
		"&& !other.agrees(e)",
		"&& false",
	},
	{
		"an operator is removed that somebody else uses", "(*mappings).remove",
		"if users, err := m.users.ofMapping(ctx, s, e); err != nil || len(users) > 0 {",
		"if users, err := m.users.ofMapping(ctx, s, e); err != nil {",
	},
	{
		"an operator is removed before the resources that need it", "isNeeded",
		"if rankOf(before) >= rankOf(e) || s.entry(before) == nil {",
		"if true {",
	},
	{
		"a Secret is removed before what needs it", "(*removal).remove",
		"blocked[plan.IDOf(e)] = kind",
		"_ = kind",
	},
	{
		"what other requests want is removed", "(*removal).takes",
		"return plan.Wants(other.operands, e) || plan.MayWant(other.operands, e), nil",
		"return false, nil",
	},
	{
		"what is handed over goes with the other request unnoticed", "(*removal).handOver",
		"controllerutil.AddFinalizer(other.request, ",
		"controllerutil.AddFinalizer(other.request.DeepCopy(), ",
	},
	{
		"a namespace gets an operator without its consent", "(*mappings).resolve",
		"err := m.CheckConsent(ctx, plan.AnnotationConsent, i.soc.Namespace, wanted.Namespace)",
		"var err error",
	},
	{
		"a namespace gets resources of an OperandConfig without its consent", "(*resources).checkPlace",
		"if object.Origin != v1alpha1.OriginConfig {",
		"if true {",
	},
	{
		"a status reveals values of another namespace", "(*scope).withoutValues",
		"if e == nil || object.Key.Namespace == s.request.Namespace {",
		"if true {",
	},
	{
		"tokens of ServiceAccounts are copied", "(*resources).fill",
		"kind == string(corev1.SecretTypeServiceAccountToken)",
		`kind == "none" + string(corev1.SecretTypeServiceAccountToken)`,
	},
	{
		"a copy that is revoked stays with whoever keeps it", "(*deleter).isKept",
		"if e.Origin == v1alpha1.OriginBinding {",
		"if false {",
	},
	{
		"a resource is created before its operator runs", "(*resources).ensure",
		"o.phase.OperatorPhase != v1alpha1.OperatorRunning && object.Origin",
		"false && object.Origin",
	},
	{
		"a Subscription goes before the version that came of it is recorded", "(*removal).removeSubscription",
		"if err := r.recordCSVs(ctx, s, e, csvs); err != nil {",
		"if false {",
	},
	{
		"a version is removed to which somebody else has subscribed", "(*removal).removeCSV",
		"if uses(&subscriptions.Items[i], e) {",
		"if uses(&subscriptions.Items[i], e) && false {",
	},
	{
		"an OperatorGroup is removed that others use", "(*removal).removeGroup",
		`if list.Items[i].Labels[operatorsv1alpha1.CopiedLabelKey] == "" {`,
		`if list.Items[i].Labels[operatorsv1alpha1.CopiedLabelKey] == "none" {`,
	},
	{
		"whoever may not see who uses an operator removes it", "(*users).in",
		"if len(commands) > 0 {",
		"if false {",
	},
}
