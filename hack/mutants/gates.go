package main

// ofRuns are faults of what decides whether a playbook runs.
var ofRuns = []mutation{
	{
		"a run starts without a record that says so", "recorder.begin",
		"live, err := r.setRecord(ctx, s.live, record)", "live, err := s.live, error(nil); _ = record",
	},
	{
		"the record of a run comes after its status", "recorder.begin",
		"live, err := r.setRecord(ctx, s.live, record)",
		"_ = r.writeStart(ctx, s.live, entry)\n\tlive, err := r.resource.get(ctx)\n\tif err == nil {\n\t\tlive, err = r.setRecord(ctx, live, record)\n\t}",
	},
	{
		"a gate does not take the lock of its pod", "(*runner).handle",
		"r.installation, err = r.podLock.Take(ctx); err != nil", "r.installation, err = r.podLock.Take(ctx); false",
	},
	{"a new pod does not take the lock", "Lock.takeUnlessDeleted", "_, err = l.Take(ctx)\n\treturn err", "return nil"},
	{"the Lease of a live pod is taken", "Lock.Take", `if pod != "" {`, `if pod != "" && lease == nil {`},
	{
		"the Lease of a pod that cannot be read is taken", "Lock.livePod",
		`return "", fmt.Errorf("read pod %s: %w", name, err)`, `return "", nil`,
	},
	{
		"a Lease that another pod took meanwhile is taken", "Lock.write",
		"object, err = client.Update(ctx, object, metav1.UpdateOptions{})",
		`object.SetResourceVersion("")
		object.SetManagedFields(nil)
		object, err = client.Apply(ctx, l.Name, object, metav1.ApplyOptions{FieldManager: "lock", Force: true})`,
	},
	{"a closed Lease starts runs", "closedUntil", "return at", "_ = at\n\treturn time.Time{}"},
	{
		"the finalizer of a resource does not wait for its deletion playbook", "runner.after",
		"s.input.Event == gate.EventDelete && record.Deleted == s.input.UID", "s.input.Event == gate.EventDelete",
	},
	{"a record of another resource counts", "Key.signature", "[]byte(id.Name), ", ""},
	{"a run begins that the journal does not know", "recorder.begin", "if err := r.journal.Write(*entry); err != nil {", "if err := error(nil); err != nil {"},
	{
		"the outcome of a run is written over that of a later one", "recorder.writeOutcome",
		"live.GetUID() != entry.UID || other && record.Finished.After(entry.Run.Started.Time)", "live.GetUID() != entry.UID",
	},
	{"a run that nobody knows the end of is repeated for ever", "gate.Lost", "if r.Lost++; r.Lost >= MaxLost {", "if r.Lost >= MaxLost {"},
	{"runs that may end their container run together", "gate.RunsAlone", "in.Record.Lost > 1", "in.Record.Lost > MaxLost"},
	{"a run starts although the resource has another one", "recorder.readStarting", "record.RunID != entry.Run.ID", `record.RunID == ""`},
	{"the lock of a removed folder is held", "podfiles.lockFile", "os.SameFile(locked, there)", "locked != nil && there != nil"},
	{"a run of a changed resource has the old variables", "runner.readInput", "!reflect.DeepEqual(handed, wanted) || deleting(live)", "!reflect.DeepEqual(handed, wanted) && false || deleting(live)"},
	{"a write of the gate ignores that the resource has changed", "resource.patch", `metadata["resourceVersion"] = live.GetResourceVersion()`, ""},
}

// ofCredentials are faults of what decides who gets Secrets, and whose archives.
var ofCredentials = []mutation{
	{
		"an unlabelled Secret is sent to Galaxy", "(*Resolver).dependencyCredentials",
		"if !credential.Is(secret) {", "if secret == nil {",
	},
	{
		"an unlabelled Secret is sent to the server of an archive", "intake.(*downloads).credentials",
		"if !credential.Is(secret) {", "if secret == nil {",
	},
	{
		"a spec names a Secret by any path", "credential.Read",
		"if len(validation.IsDNS1123Subdomain(name)) > 0 {", "if len(validation.IsDNS1123Subdomain(name)) > 1000 {",
	},
	{"any value of the label makes a Secret a credential", "credential.Is", `secret.Labels[Label] == "true"`, `secret.Labels[Label] != ""`},
	{"a key of hashes that is too short is replaced", "LoadKey", "if apierrors.IsNotFound(err) {", "if apierrors.IsNotFound(err) || len(secret.Data[KeyField]) < endpoint.KeyBytes {"},
	{
		"an upload needs no permission", "upload.(*Handler).authorize",
		"if err := h.mayUpdate(ctx, who, oc); err != nil {", "if err := error(nil); err != nil {",
	},
	{"a token that the API server does not accept uploads", "upload.(*Handler).authenticate", "if review.Status.Authenticated {", "if true {"},
	{"a user uploads who is no administrator", "upload.(*Handler).mayUpdate", "if err != nil || !h.AdministratorsOnly {", "if true {"},
	{"the extra attributes of a user are not asked about", "upload.(*Handler).may", "Extra: extra, ", ""},
	{
		"an upload is stored under an OperatorCollection that was deleted meanwhile", "upload.(*Handler).receive",
		"if err := h.checkCollection(again, oc); err != nil {", "if err := error(nil); err != nil {",
	},
	{"an upload with another digest is stored", "upload.(*Handler).save", `expected != "" && file.Digest != expected`, "false"},
	{"two uploads in a namespace at once", "upload.(*Handler).reserve", "case h.namespaces[namespace]:", "case false:"},
	{"a personal credential is used where anybody may name it", "secrets.takePersonal", "if !isProtected {", "if !isProtected && false {"},
	{"a personal credential that is none is used", "ParseCredential", "if !IsCredential(secret) {", "if secret == nil {"},
	{
		"the user of a personal credential may be an option of ssh", "parsePersonal",
		`err == nil && credential.User != "" && !endpoint.IsUser(credential.User)`, "false",
	},
	{"a run with a personal credential has the logon of the endpoint", "(*Personal).Write", "delete(variables, name)", "_ = name"},
	{"a personal credential stays after its run", "secrets.forget", "os.RemoveAll(p.Folder)", "error(nil)"},
}
