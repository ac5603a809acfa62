package admin

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/spf13/cobra"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	operandsv1alpha1 "github.com/collection-operator/collection-operator/api/operands/v1alpha1"
	"github.com/collection-operator/collection-operator/api/v2beta2"
	"github.com/collection-operator/collection-operator/internal/cli/kit"
	"github.com/collection-operator/collection-operator/internal/cli/kube"
	"github.com/collection-operator/collection-operator/internal/operands/plan"
	"github.com/collection-operator/collection-operator/internal/platform/printable"
)

// maxRequestBytes limits the file of an OperandRequest.
const maxRequestBytes = 1 << 20

func requestCommand() *cobra.Command {
	var (
		dryRun          bool
		account, global string
	)
	command := &cobra.Command{
		Use:   "request FILE --dry-run",
		Short: "Show what an OperandRequest would install, create and need",
		Long: `Show what an OperandRequest would install and create, and which permissions and consents it needs, without creating it. FILE is - for
standard input. To create it, use kubectl apply.

What you may not read is named, and the plan may be incomplete then.`,
		Example: `  kubectl collection request payments.yaml --dry-run`,
		Args:    kit.Exactly(1),
		PreRunE: func(_ *cobra.Command, args []string) error {
			if !dryRun {
				return errors.New("give --dry-run: an OperandRequest is created with kubectl apply -f " + args[0])
			}
			return nil
		},
	}
	kube.Command(command, func(cmd *cobra.Command, c *kube.Cluster, args []string) error {
		namespace, name, found := strings.Cut(account, ":")
		if !found {
			return fmt.Errorf("--service-account %q is not NAMESPACE:NAME", account)
		}
		p, err := newPreviewer(c)
		if err != nil {
			return err
		}
		p.account, p.source.GlobalNamespace = types.NamespacedName{Namespace: namespace, Name: name}, global
		request, err := readRequest(args[0], cmd.InOrStdin(), c.Namespace)
		if err != nil {
			return err
		}
		return p.show(cmd.Context(), cmd.OutOrStdout(), request)
	})
	command.Flags().BoolVar(&dryRun, "dry-run", false, "only show what would be done; required")
	command.Flags().StringVar(&account, "service-account", "collection-operator-system:collection-operator-operands", "NAMESPACE:NAME of the ServiceAccount of the component operands")
	command.Flags().StringVar(&global, "global-namespace", "openshift-operators", "namespace of operators for all namespaces: on other clusters than OpenShift, operators")
	return command
}

// readRequest reads the file of an OperandRequest. Its namespace defaults to that of the connection.
func readRequest(name string, stdin io.Reader, namespace string) (*operandsv1alpha1.OperandRequest, error) {
	in := stdin
	if name != "-" {
		file, err := os.Open(name)
		if err != nil {
			return nil, err
		}
		defer file.Close()
		in = file
	}
	text, err := io.ReadAll(io.LimitReader(in, maxRequestBytes+1))
	if err != nil {
		return nil, err
	}
	if len(text) > maxRequestBytes {
		return nil, fmt.Errorf("%s is larger than %d bytes", name, maxRequestBytes)
	}
	documents := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(text)))
	var document []byte
	for {
		next, err := documents.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		if len(bytes.TrimSpace(next)) > 0 && document != nil {
			return nil, fmt.Errorf("%s has several documents: give the OperandRequest alone", name)
		}
		document = append(document, next...)
	}
	request := &operandsv1alpha1.OperandRequest{}
	if err := yaml.Unmarshal(document, request); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	if request.APIVersion != operandsv1alpha1.GroupVersion.String() || request.Kind != "OperandRequest" {
		return nil, fmt.Errorf("%s is %s %s: it must be one OperandRequest of %s", name, request.APIVersion, request.Kind, operandsv1alpha1.GroupVersion)
	}
	request.Namespace = cmp.Or(request.Namespace, namespace)
	request.Status = operandsv1alpha1.OperandRequestStatus{}
	return request, nil
}

// previewer shows what a request would do, with the permissions of the user.
type previewer struct {
	client  client.Client
	account types.NamespacedName
	source  plan.Source
	// unread says what could not be read.
	unread []string
	// problems is true if something is in the way.
	problems bool
}

func newPreviewer(c *kube.Cluster) (*previewer, error) {
	reader, err := c.Typed(corev1.AddToScheme, authorizationv1.AddToScheme, operatorsv1alpha1.AddToScheme, v2beta2.AddToScheme, operandsv1alpha1.AddToScheme)
	if err != nil {
		return nil, err
	}
	return &previewer{client: reader, source: plan.Source{
		Registries:  map[types.NamespacedName]*operandsv1alpha1.OperandRegistry{},
		Configs:     map[types.NamespacedName]*operandsv1alpha1.OperandConfig{},
		Collections: map[types.NamespacedName]*v2beta2.OperatorCollection{},
		Installed:   map[plan.PackageKey]*plan.Installed{},
	}}, nil
}

func (p *previewer) show(ctx context.Context, out io.Writer, request *operandsv1alpha1.OperandRequest) error {
	for _, id := range plan.IDs(request) {
		if err := p.load(ctx, id); err != nil {
			return err
		}
	}
	operands := plan.Of(request, &p.source)
	var lines []string
	for i := range operands {
		described, err := p.describe(ctx, &operands[i])
		if err != nil {
			return err
		}
		lines = append(lines, described...)
	}
	for _, need := range plan.Needs(operands) {
		line, err := p.grant(ctx, need)
		if err != nil {
			return err
		}
		if line != "" {
			lines = append(lines, line)
		}
	}
	for _, consent := range plan.Consents(operands) {
		line, err := p.consent(ctx, consent)
		if err != nil {
			return err
		}
		lines = append(lines, line)
	}
	for _, what := range p.unread {
		lines = append(lines, "not read: "+what)
	}
	for _, line := range lines {
		if _, err := fmt.Fprintln(out, printable.Escape(line)); err != nil {
			return err
		}
	}
	if p.problems {
		return kit.ErrFindings
	}
	return nil
}

// get reads an object, and reports whether it exists. What the user may not read is noted.
func (p *previewer) get(ctx context.Context, key types.NamespacedName, object client.Object, what string) (bool, error) {
	err := p.client.Get(ctx, key, object)
	return err == nil, p.note(err, what+" "+key.String())
}

func (p *previewer) note(err error, what string) error {
	switch {
	case err == nil, apierrors.IsNotFound(err), meta.IsNoMatchError(err):
		return nil
	case apierrors.IsForbidden(err):
		if !slices.Contains(p.unread, what) {
			p.unread = append(p.unread, what)
		}
		return nil
	}
	return fmt.Errorf("reading %s: %w", what, err)
}

// load reads what the plan of an operand depends on.
func (p *previewer) load(ctx context.Context, id plan.ID) error {
	if p.source.Registries[id.Registry] == nil {
		if err := p.loadRegistry(ctx, id.Registry); err != nil {
			return err
		}
	}
	registry := p.source.Registries[id.Registry]
	if registry == nil || registry.Find(id.Name) == nil {
		return nil
	}
	operator := registry.Find(id.Name)
	if key := plan.PackageOf(registry, operator, &p.source); key != nil {
		return p.loadPackage(ctx, *key)
	}
	if operator.Collection == nil {
		return nil
	}
	key := types.NamespacedName{Namespace: cmp.Or(operator.Collection.Namespace, registry.Namespace), Name: operator.Collection.Name}
	collection := &v2beta2.OperatorCollection{}
	found, err := p.get(ctx, key, collection, "OperatorCollection")
	if found {
		p.source.Collections[key] = collection
	}
	return err
}

func (p *previewer) loadRegistry(ctx context.Context, key types.NamespacedName) error {
	registry, config, infos := &operandsv1alpha1.OperandRegistry{}, &operandsv1alpha1.OperandConfig{}, &operandsv1alpha1.OperandBindInfoList{}
	found, err := p.get(ctx, key, registry, "OperandRegistry")
	if err != nil || !found {
		return err
	}
	p.source.Registries[key] = registry
	if found, err = p.get(ctx, key, config, "OperandConfig"); err != nil {
		return err
	}
	if found {
		p.source.Configs[key] = config
	}
	if err := p.note(p.client.List(ctx, infos, client.InNamespace(key.Namespace)), "OperandBindInfos in namespace "+key.Namespace); err != nil {
		return err
	}
	for i := range infos.Items {
		p.source.BindInfos = append(p.source.BindInfos, &infos.Items[i])
	}
	return nil
}

func (p *previewer) loadPackage(ctx context.Context, key plan.PackageKey) error {
	subscriptions := &operatorsv1alpha1.SubscriptionList{}
	if err := p.note(p.client.List(ctx, subscriptions, client.InNamespace(key.Namespace)), "Subscriptions in namespace "+key.Namespace); err != nil {
		return err
	}
	for _, subscription := range subscriptions.Items {
		if subscription.Spec == nil || subscription.Spec.Package != key.Name || subscription.Status.InstalledCSV == "" {
			continue
		}
		csv := &operatorsv1alpha1.ClusterServiceVersion{}
		found, err := p.get(ctx, types.NamespacedName{Namespace: key.Namespace, Name: subscription.Status.InstalledCSV}, csv, "ClusterServiceVersion")
		if err != nil || !found {
			return err
		}
		if p.source.Installed[key], err = plan.InstalledBy(csv); err != nil {
			return err
		}
	}
	return nil
}

// describe says what would become of an operand.
func (p *previewer) describe(ctx context.Context, o *plan.Operand) ([]string, error) {
	lines := []string{"operand " + o.ID.String()}
	if o.Problem != nil {
		p.problems = true
		line := "  " + o.Problem.Reason + ": " + o.Problem.Message
		if len(p.unread) > 0 {
			line += " (you may not read all that this depends on: see below)"
		}
		return append(lines, line), nil
	}
	installs, err := p.installs(ctx, o)
	if err != nil {
		return nil, err
	}
	lines = append(lines, installs...)
	if o.Package != nil {
		lines = append(lines, fmt.Sprintf("  install package %s, channel %s, in namespace %s, unless it is", o.Package.Name, o.Package.Channels[0], o.Package.Namespace))
	}
	if o.ConfigMissing {
		lines = append(lines, "  there is no OperandConfig "+o.ID.Registry.String())
	}
	if o.ConfigProblem != nil {
		p.problems = true
		lines = append(lines, "  "+o.ConfigProblem.Reason+": "+o.ConfigProblem.Message)
	}
	if o.KindsUnknown {
		lines = append(lines, "  its resources are known once its operator is installed")
	}
	for i := range o.Objects {
		line, err := p.object(ctx, &o.Objects[i])
		if err != nil {
			return nil, err
		}
		lines = append(lines, "  "+line)
	}
	return lines, nil
}

// installs says where an operator would be installed. The places where it is are taken out of the operand: they need nothing.
func (p *previewer) installs(ctx context.Context, o *plan.Operand) ([]string, error) {
	var lines []string
	var wanted []plan.Install
	for _, i := range o.Installs {
		configs := &v2beta2.SubOperatorConfigList{}
		if err := p.note(p.client.List(ctx, configs, client.InNamespace(i.Collection.Namespace)), "SubOperatorConfigs in namespace "+i.Collection.Namespace); err != nil {
			return nil, err
		}
		if slices.ContainsFunc(configs.Items, func(soc v2beta2.SubOperatorConfig) bool {
			return soc.Spec.OperatorCollection == i.Collection.Name && soc.DeletionTimestamp == nil &&
				slices.ContainsFunc(soc.Spec.Mapping, func(m v2beta2.NamespaceMapping) bool { return m.Namespace == i.Namespace })
		}) {
			lines = append(lines, fmt.Sprintf("  use the operator of OperatorCollection %s in namespace %s", i.Collection, i.Namespace))
			continue
		}
		lines = append(lines, fmt.Sprintf("  install OperatorCollection %s in namespace %s", i.Collection, i.Namespace))
		wanted = append(wanted, i)
	}
	o.Installs = wanted
	return lines, nil
}

func (p *previewer) object(ctx context.Context, o *plan.Object) (string, error) {
	name := o.Kind.Kind + " " + o.Key.String()
	if o.Origin == operandsv1alpha1.OriginBinding {
		name += ", from " + o.SourceKind.Kind + " " + o.Source.String()
	}
	live := &unstructured.Unstructured{}
	live.SetGroupVersionKind(o.Kind)
	found, err := p.get(ctx, o.Key, live, o.Kind.Kind)
	switch {
	case err != nil:
		return "", err
	case !found:
		return "create " + name, nil
	case plan.IsApplied(live, o.Owner):
		return "keep " + name + ", which exists for this operand", nil
	}
	p.problems = true
	return "ForeignObject: " + name + " exists and was not created for this operand: delete or rename it", nil
}

// grant says whether the component has a permission, and how to give it. It returns "" for resources without namespace, which are not listed.
func (p *previewer) grant(ctx context.Context, need plan.Need) (string, error) {
	mapping, err := p.client.RESTMapper().RESTMapping(need.Kind.GroupKind(), need.Kind.Version)
	if meta.IsNoMatchError(err) {
		return fmt.Sprintf("the cluster has no kind %s in %s", need.Kind.Kind, need.Kind.GroupVersion()), nil
	}
	if err != nil {
		return "", err
	}
	what := fmt.Sprintf("kind %s in namespace %s", need.Kind.Kind, need.Namespace)
	command := plan.Grant(p.account, need.Kind.GroupKind(), mapping.Resource.Resource, need.Namespace)
	if need.Verb == "list" {
		if mapping.Scope.Name() != meta.RESTScopeNameNamespace {
			return "", nil
		}
		what, command = "listing "+what, plan.GrantList(p.account, []schema.GroupResource{mapping.Resource.GroupResource()}, need.Namespace)
	}
	review := &authorizationv1.LocalSubjectAccessReview{ObjectMeta: metav1.ObjectMeta{Namespace: need.Namespace}, Spec: authorizationv1.SubjectAccessReviewSpec{
		User: "system:serviceaccount:" + p.account.Namespace + ":" + p.account.Name, Groups: []string{"system:serviceaccounts", "system:serviceaccounts:" + p.account.Namespace, "system:authenticated"},
		ResourceAttributes: &authorizationv1.ResourceAttributes{Namespace: need.Namespace, Verb: need.Verb, Group: mapping.Resource.Group, Version: mapping.Resource.Version, Resource: mapping.Resource.Resource},
	}}
	state := "missing"
	err = p.client.Create(ctx, review)
	switch {
	case apierrors.IsForbidden(err):
		state = "needed (you may not ask whether it is given)"
	case err != nil:
		return "", fmt.Errorf("asking for the permissions of the component: %w", err)
	case review.Status.Allowed:
		return "permission for " + what + ": given", nil
	default:
		p.problems = true
	}
	return fmt.Sprintf("permission for %s: %s: %s", what, state, command), nil
}

// consent says whether a namespace agrees, and how it can.
func (p *previewer) consent(ctx context.Context, c plan.Consent) (string, error) {
	what := fmt.Sprintf("consent of namespace %s to %s", c.Namespace, c.To)
	command := fmt.Sprintf("kubectl annotate namespace %s %s=%s", c.Namespace, c.Annotation, c.To)
	namespace := &corev1.Namespace{}
	found, err := p.get(ctx, types.NamespacedName{Name: c.Namespace}, namespace, "Namespace")
	switch {
	case err != nil:
		return "", err
	case !found:
		return what + ": needed: " + command, nil
	case c.In(namespace.Annotations):
		return what + ": given", nil
	}
	p.problems = true
	return what + ": missing: " + command, nil
}
