package main

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/mail"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/operator-framework/api/pkg/manifests"
	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/operator-framework/api/pkg/validation"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"
)

const (
	packageName = "collection-operator"
	channel     = "stable"
	// managerName is the name of the manager's Deployment.
	managerName = "collection-operator-controller-manager"
)

// metadata contains the annotations of a bundle, for its metadata folder and as labels of its image.
var metadata = map[string]string{
	"operators.operatorframework.io.bundle.mediatype.v1":       "registry+v1",
	"operators.operatorframework.io.bundle.manifests.v1":       "manifests/",
	"operators.operatorframework.io.bundle.metadata.v1":        "metadata/",
	"operators.operatorframework.io.bundle.package.v1":         packageName,
	"operators.operatorframework.io.bundle.channels.v1":        channel,
	"operators.operatorframework.io.bundle.channel.default.v1": channel,
}

// options is the input of a bundle in addition to the manifests.
type options struct {
	version                    string
	managerImage, runtimeImage string
	architectures              []string
	createdAt                  string
	// maintainers are those who publish the bundle, as "Name <mail address>".
	maintainers []string
	icon        []byte
	allowTags   bool
}

// bundle is the assembled content of a bundle.
type bundle struct {
	csv *operatorsv1alpha1.ClusterServiceVersion
	// deployment is the manager's.
	deployment *appsv1.Deployment
	// deployments are all, in the order of the manifests.
	deployments []*appsv1.Deployment
	// manifests in addition to the ClusterServiceVersion.
	manifests []*unstructured.Unstructured
}

func decode(r io.Reader) ([]*unstructured.Unstructured, error) {
	var objects []*unstructured.Unstructured
	decoder := utilyaml.NewYAMLOrJSONDecoder(r, 4096)
	for {
		object := &unstructured.Unstructured{}
		if err := decoder.Decode(object); errors.Is(err, io.EOF) {
			return objects, nil
		} else if err != nil {
			return nil, err
		}
		objects = append(objects, object)
	}
}

// assemble returns a bundle of the objects that kustomize builds from config/manifests. It fails for objects that a bundle
// cannot contain.
func assemble(objects []*unstructured.Unstructured, o options) (*bundle, error) {
	b := &bundle{csv: &operatorsv1alpha1.ClusterServiceVersion{}}
	if err := take(objects, "ClusterServiceVersion", b.csv); err != nil {
		return nil, err
	}
	if err := b.takeDeployments(objects); err != nil {
		return nil, err
	}
	rest, err := b.takePermissions(objects)
	if err != nil {
		return nil, err
	}
	examples, err := b.sortOut(rest)
	if err != nil {
		return nil, err
	}
	if err := b.setImages(o); err != nil {
		return nil, err
	}
	if err := b.describe(o, examples); err != nil {
		return nil, err
	}
	if err := b.setFlagsByEnvironment(); err != nil {
		return nil, err
	}
	for _, d := range b.deployments {
		strategy := &b.csv.Spec.InstallStrategy.StrategySpec
		strategy.DeploymentSpecs = append(strategy.DeploymentSpecs, operatorsv1alpha1.StrategyDeploymentSpec{Name: d.Name, Label: d.Labels, Spec: d.Spec})
	}
	return b, nil
}

// takeDeployments finds the Deployments.
func (b *bundle) takeDeployments(objects []*unstructured.Unstructured) error {
	for _, object := range objects {
		if object.GetKind() != "Deployment" {
			continue
		}
		deployment := &appsv1.Deployment{}
		if err := convert(object, deployment); err != nil {
			return err
		}
		b.deployments = append(b.deployments, deployment)
		if deployment.Name == managerName {
			b.deployment = deployment
		}
	}
	if b.deployment == nil {
		return fmt.Errorf("there is no Deployment %s", managerName)
	}
	return nil
}

// setFlagsByEnvironment replaces the manager's arguments by environment variables, which spec.config.env of a Subscription can
// change. Arguments cannot be changed there.
func (b *bundle) setFlagsByEnvironment() error {
	container := &b.deployment.Spec.Template.Spec.Containers[0]
	for _, argument := range container.Args {
		flag, value, ok := strings.Cut(strings.TrimPrefix(argument, "--"), "=")
		if !ok || !strings.HasPrefix(argument, "--") {
			return fmt.Errorf("the manager's argument %s does not have the form --flag=value", argument)
		}
		name := "COLLECTION_OPERATOR_" + strings.ToUpper(strings.ReplaceAll(flag, "-", "_"))
		container.Env = append(container.Env, corev1.EnvVar{Name: name, Value: value})
	}
	container.Args = nil
	return nil
}

// take converts the only object of a kind, and fails if there is none or more than one.
func take(objects []*unstructured.Unstructured, kind string, into any) error {
	var found []*unstructured.Unstructured
	for _, object := range objects {
		if object.GetKind() == kind {
			found = append(found, object)
		}
	}
	if len(found) != 1 {
		return fmt.Errorf("want one %s, have %d", kind, len(found))
	}
	return convert(found[0], into)
}

func convert(object *unstructured.Unstructured, into any) error {
	if err := runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(object.Object, into, true); err != nil {
		return fmt.Errorf("%s: %w", name(object), err)
	}
	return nil
}

func name(object *unstructured.Unstructured) string { return object.GetKind() + " " + object.GetName() }

// sortOut adds the other manifests to the bundle, without a namespace, which is chosen at installation. It returns one
// example for each kind that the operator owns.
func (b *bundle) sortOut(objects []*unstructured.Unstructured) ([]*unstructured.Unstructured, error) {
	var examples []*unstructured.Unstructured
	for _, object := range objects {
		switch kind := object.GetKind(); kind {
		case "ClusterServiceVersion", "Deployment":
		case "Namespace", "ServiceAccount": // OLM creates the ServiceAccount. The namespace exists before.
		case "Role", "RoleBinding":
			return nil, fmt.Errorf("%s: for an operator that watches all namespaces, OLM converts it to a ClusterRole: use a ClusterRole, or remove it", name(object))
		case "CustomResourceDefinition", "ClusterRole", "ClusterRoleBinding", "ConfigMap", "NetworkPolicy", "Service":
			if ns := object.GetNamespace(); ns != "" && ns != b.deployment.Namespace {
				return nil, fmt.Errorf("%s is in namespace %s: OLM creates all objects of a bundle in the operator's namespace", name(object), ns)
			}
			object.SetNamespace("")
			b.manifests = append(b.manifests, object)
		default:
			if !slices.ContainsFunc(b.csv.Spec.CustomResourceDefinitions.Owned, func(d operatorsv1alpha1.CRDDescription) bool { return d.Kind == kind }) {
				return nil, fmt.Errorf("%s: a bundle cannot contain this kind", name(object))
			}
			examples = append(examples, object)
		}
	}
	return examples, nil
}

// takePermissions moves the roles of the Deployments' ServiceAccounts into the ClusterServiceVersion, and returns all other
// objects. An aggregated role stays a manifest, since its rules are aggregated in the cluster.
func (b *bundle) takePermissions(objects []*unstructured.Unstructured) ([]*unstructured.Unstructured, error) {
	taken := map[string]bool{}
	for _, object := range objects {
		if object.GetKind() != "ClusterRoleBinding" {
			continue
		}
		binding := &rbacv1.ClusterRoleBinding{}
		if err := convert(object, binding); err != nil {
			return nil, err
		}
		role, err := clusterRole(objects, binding.RoleRef.Name)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name(object), err)
		}
		account, ok := b.accountOf(binding)
		if role.AggregationRule != nil || !ok {
			continue
		}
		strategy := &b.csv.Spec.InstallStrategy.StrategySpec
		strategy.ClusterPermissions = append(strategy.ClusterPermissions,
			operatorsv1alpha1.StrategyDeploymentPermissions{ServiceAccountName: account, Rules: role.Rules})
		taken[name(object)], taken["ClusterRole "+role.Name] = true, true
	}
	return slices.DeleteFunc(slices.Clone(objects), func(object *unstructured.Unstructured) bool { return taken[name(object)] }), nil
}

// accountOf returns the ServiceAccount of a Deployment that is the only subject of a binding, if it is.
func (b *bundle) accountOf(binding *rbacv1.ClusterRoleBinding) (account string, ok bool) {
	for _, d := range b.deployments {
		account := d.Spec.Template.Spec.ServiceAccountName
		want := rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Name: account, Namespace: d.Namespace}
		if slices.Equal(binding.Subjects, []rbacv1.Subject{want}) {
			return account, true
		}
	}
	return "", false
}

func clusterRole(objects []*unstructured.Unstructured, roleName string) (*rbacv1.ClusterRole, error) {
	for _, object := range objects {
		if object.GetKind() == "ClusterRole" && object.GetName() == roleName {
			role := &rbacv1.ClusterRole{}
			return role, convert(object, role)
		}
	}
	return nil, fmt.Errorf("there is no ClusterRole %s", roleName)
}

var digest = regexp.MustCompile(`@sha256:[a-f0-9]{64}$`)

func (b *bundle) setImages(o options) error {
	disconnected := true
	for _, image := range []string{o.managerImage, o.runtimeImage} {
		if digest.MatchString(image) {
			continue
		}
		if !o.allowTags {
			return fmt.Errorf("image %s has no digest: name it as name@sha256:..., or set --allow-tags (make: ALLOW_TAGS=true)", image)
		}
		disconnected = false
	}
	container := &b.deployment.Spec.Template.Spec.Containers[0]
	for _, d := range b.deployments {
		d.Spec.Template.Spec.Containers[0].Image = o.managerImage
	}
	for variable, value := range map[string]string{
		"RELATED_IMAGE_RUNTIME": o.runtimeImage, "RUNTIME_ARCHITECTURES": strings.Join(o.architectures, ","),
	} {
		i := slices.IndexFunc(container.Env, func(e corev1.EnvVar) bool { return e.Name == variable })
		if i < 0 {
			return fmt.Errorf("the manager's container has no variable %s", variable)
		}
		container.Env[i].Value = value
	}
	b.csv.Spec.RelatedImages = []operatorsv1alpha1.RelatedImage{
		{Name: "manager", Image: o.managerImage}, {Name: "runtime", Image: o.runtimeImage},
	}
	b.csv.Annotations["containerImage"] = o.managerImage
	b.csv.Annotations["features.operators.openshift.io/disconnected"] = strconv.FormatBool(disconnected)
	for _, architecture := range o.architectures {
		b.csv.Labels["operatorframework.io/arch."+architecture] = "supported"
	}
	return nil
}

// describe completes the texts for OperatorHub.
func (b *bundle) describe(o options, examples []*unstructured.Unstructured) error {
	if err := b.csv.Spec.Version.UnmarshalJSON([]byte(strconv.Quote(o.version))); err != nil || b.csv.Spec.Version.String() != o.version {
		return fmt.Errorf("version %q is not semantic, such as 0.1.0", o.version)
	}
	text, err := json.MarshalIndent(examples, "", "  ")
	if err != nil {
		return err
	}
	if b.csv.Spec.Maintainers, err = maintainers(o.maintainers); err != nil {
		return err
	}
	b.csv.Name = packageName + ".v" + o.version
	b.csv.Annotations["alm-examples"] = string(text)
	b.csv.Annotations["createdAt"] = o.createdAt
	b.csv.Spec.Icon = []operatorsv1alpha1.Icon{{Data: base64.StdEncoding.EncodeToString(o.icon), MediaType: "image/svg+xml"}}
	return nil
}

// placeholder matches hosts that nobody can have (RFC 2606, RFC 6761).
var placeholder = regexp.MustCompile(`(?i)(^|\.)(example(\.(com|net|org))?|test|invalid|localhost)$`)

// maintainers fails for addresses that do not reach anybody.
func maintainers(texts []string) ([]operatorsv1alpha1.Maintainer, error) {
	var out []operatorsv1alpha1.Maintainer
	for _, text := range texts {
		address, err := mail.ParseAddress(text)
		if err != nil || address.Name == "" {
			return nil, fmt.Errorf("maintainer %q does not have the form Name <mail address>", text)
		}
		if _, host, _ := strings.Cut(address.Address, "@"); placeholder.MatchString(host) {
			return nil, fmt.Errorf("maintainer %q: nobody gets mail at %s", text, host)
		}
		out = append(out, operatorsv1alpha1.Maintainer{Name: address.Name, Email: address.Address})
	}
	return out, nil
}

// write replaces the folder with the bundle, and writes the Dockerfile of its image next to it.
func (b *bundle) write(dir string) error {
	if err := os.RemoveAll(dir); err != nil {
		return err
	}
	for _, folder := range []string{"manifests", "metadata"} {
		if err := os.MkdirAll(filepath.Join(dir, folder), 0o755); err != nil {
			return err
		}
	}
	files := map[string]any{
		"metadata/annotations.yaml":                                map[string]any{"annotations": metadata},
		"manifests/" + packageName + ".clusterserviceversion.yaml": b.csv,
	}
	for _, object := range b.manifests {
		files["manifests/"+object.GetName()+"."+strings.ToLower(object.GetKind())+".yaml"] = object
	}
	for path, content := range files {
		text, err := yaml.Marshal(content)
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(dir, path), text, 0o644); err != nil {
			return err
		}
	}
	return os.WriteFile(dir+".Dockerfile", []byte(dockerfile(filepath.Base(dir))), 0o644)
}

func dockerfile(dir string) string {
	var text strings.Builder
	fmt.Fprintln(&text, "FROM scratch")
	for _, key := range slices.Sorted(maps.Keys(metadata)) {
		fmt.Fprintf(&text, "LABEL %s=%s\n", key, metadata[key])
	}
	fmt.Fprintf(&text, "COPY %[1]s/manifests /manifests/\nCOPY %[1]s/metadata /metadata/\n", dir)
	return text.String()
}

// validate returns the warnings of the Operator Framework's validators, and their errors as an error.
func validate(dir string) ([]string, error) {
	loaded, err := manifests.GetBundleFromDir(dir)
	if err != nil {
		return nil, err
	}
	var warnings []string
	var errs []error
	for _, validator := range append(validation.DefaultBundleValidators, validation.OperatorHubV2Validator,
		validation.StandardCapabilitiesValidator, validation.StandardCategoriesValidator, validation.GoodPracticesValidator) {
		for _, result := range validator.Validate(loaded.ObjectsToValidate()...) {
			for _, e := range result.Errors {
				errs = append(errs, e)
			}
			for _, w := range result.Warnings {
				warnings = append(warnings, w.Error())
			}
		}
	}
	return warnings, errors.Join(errs...)
}
