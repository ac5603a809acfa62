// Package controller has a package for each reconciler, and those that several of them, or they and the manager, share: intake (from a
// source to an archive in the store), imports (what was imported), crdplan (the plan of the CRDs), replacement, upgradecheck,
// trustedauthorities, conflict (what keeps a manager from starting), cache and metrics. A reconciler never imports another one. Tests here run reconcilers against an API server that they share.
//
// Each reconciler is a list of steps. Steps return errors and never touch conditions; one function per kind turns the
// error of the last step, and the scope that the steps share, into status.
//
// A reconciler reads its own object live, and others from the cache, whose changes trigger a reconcile. The cache may have a
// status older than the one that the reconciler wrote a moment ago; if that equals what it would write now, the newer one
// would remain, since its own writes trigger no reconcile. SubOperatorConfigs are taken from the cache if it has the version
// that was read or written last. Others are read live where a stale answer could delete something that a user needs, give a
// collection to the wrong namespace, or make Ready true too early.
//
// The manager grants collections the permissions they ask for, so it must hold them itself: it has neither the verb
// escalate nor bind. Those in the rules below are what every collection needs; all others come from grants:
// see package install/grants.
package controller

// +kubebuilder:rbac:groups=zoscb.ibm.com,resources=operatorcollections;suboperatorconfigs;zosendpoints,verbs=get;list;watch;create;update;patch;delete
// +kubebuilder:rbac:groups=zoscb.ibm.com,resources=operatorcollections/status;suboperatorconfigs/status;zosendpoints/status,verbs=get;update;patch
// +kubebuilder:rbac:groups=zoscb.ibm.com,resources=zoscloudbrokers,verbs=get;list;watch
// +kubebuilder:rbac:groups=zoscb.ibm.com,resources=zoscloudbrokers/status,verbs=patch
// +kubebuilder:rbac:groups=zoscb.ibm.com,resources=runs,verbs=record
// +kubebuilder:rbac:groups=zoscb.ibm.com,resources=administration,verbs=use
// +kubebuilder:rbac:groups=apiextensions.k8s.io,resources=customresourcedefinitions,verbs=get;list;watch;create;update;patch;delete
// +kubebuilder:rbac:groups=apiextensions.k8s.io,resources=customresourcedefinitions/status,verbs=update
// +kubebuilder:rbac:groups=suboperator.zoscb.ibm.com,resources=*,verbs=get;list;watch;create;update;patch;delete
// +kubebuilder:rbac:groups=apps,resources=deployments,verbs=get;list;watch;create;update;patch;delete
// +kubebuilder:rbac:groups="",resources=serviceaccounts;configmaps;secrets,verbs=get;list;watch;create;update;patch;delete
// +kubebuilder:rbac:groups="",resources=pods,verbs=get;list;watch
// +kubebuilder:rbac:groups="",resources=persistentvolumeclaims,verbs=get
// +kubebuilder:rbac:groups="",resources=namespaces,verbs=get;list;watch
// +kubebuilder:rbac:groups=networking.k8s.io,resources=networkpolicies,verbs=get;list;watch;create;update;patch;delete
// +kubebuilder:rbac:groups=rbac.authorization.k8s.io,resources=roles;rolebindings;clusterroles;clusterrolebindings,verbs=get;list;watch;create;update;patch;delete
// +kubebuilder:rbac:groups=authentication.k8s.io,resources=tokenreviews,verbs=create
// +kubebuilder:rbac:groups=authorization.k8s.io,resources=subjectaccessreviews,verbs=create
// +kubebuilder:rbac:groups=coordination.k8s.io,resources=leases,verbs=get;list;watch;create;update;patch
// +kubebuilder:rbac:groups="";events.k8s.io,resources=events,verbs=create;patch
