package apiserver_test

import (
	"bufio"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	"github.com/collection-operator/collection-operator/test/apiserver"
)

func TestWhatTestsRelyOn(t *testing.T) {
	server := apiserver.Shared(t)
	namespace, other := server.Namespace(t), server.Namespace(t)
	if namespace == other {
		t.Errorf("two tests have namespace %s", namespace)
	}
	apiserver.Must(t, server.Client.List(t.Context(), &v2beta2.OperatorCollectionList{}))

	account := server.NewClient(t, server.AsServiceAccount(t, namespace, "default"))
	review := &authenticationv1.SelfSubjectReview{}
	apiserver.Must(t, account.Create(t.Context(), review))
	if want := "system:serviceaccount:" + namespace + ":default"; review.Status.UserInfo.Username != want {
		t.Errorf("the user is %s, want %s", review.Status.UserInfo.Username, want)
	}
	config := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "a"}}
	for name, c := range map[string]client.Client{"a ServiceAccount": account, "a user": server.NewClient(t, server.As("somebody"))} {
		if err := c.Create(t.Context(), config.DeepCopy()); !apierrors.IsForbidden(err) {
			t.Errorf("%s without rights: %v", name, err)
		}
	}

	// Whoever blocks the deletion of an owner must be allowed to.
	apiserver.Must(t, server.Client.Create(t.Context(), config))
	meta := metav1.ObjectMeta{Namespace: namespace, Name: "creator"}
	apiserver.Must(t, server.Client.Create(t.Context(), &rbacv1.Role{ObjectMeta: meta, Rules: []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"secrets"}, Verbs: []string{"*"}}}}))
	apiserver.Must(t, server.Client.Create(t.Context(), &rbacv1.RoleBinding{
		ObjectMeta: meta, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: meta.Name},
		Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.GroupKind, Name: "creators"}},
	}))
	creator := server.NewClient(t, server.As("creator", "creators"))
	block := true
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "a", OwnerReferences: []metav1.OwnerReference{
		{APIVersion: "v1", Kind: "ConfigMap", Name: config.Name, UID: config.UID, BlockOwnerDeletion: &block},
	}}}
	if err := creator.Create(t.Context(), secret); !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "blockOwnerDeletion") {
		t.Errorf("an owner that blocks: %v", err)
	}
}

func TestWrites(t *testing.T) {
	server := apiserver.Shared(t)
	namespace := server.Namespace(t)
	writes := &apiserver.Writes{}
	c := server.NewClient(t, writes.Of(server.Config))
	config := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "a"}}
	apiserver.Must(t, c.Create(t.Context(), config.DeepCopy(), client.DryRunAll))
	apiserver.Must(t, c.Create(t.Context(), config))
	apiserver.Must(t, c.Get(t.Context(), client.ObjectKeyFromObject(config), config))
	apiserver.Must(t, c.Update(t.Context(), config))
	apiserver.Must(t, c.Delete(t.Context(), config))
	got, below := fmt.Sprint(writes.Take()), "/api/v1/namespaces/"+namespace+"/configmaps"
	if want := fmt.Sprintf("[POST %[1]s PUT %[1]s/a DELETE %[1]s/a]", below); got != want || len(writes.Take()) > 0 {
		t.Errorf("got %s, want %s", got, want)
	}
}

// addressOnly makes TestNothingIsLeftOfAKilledTest print the address of its server, and wait.
const addressOnly = "TEST_ADDRESS_ONLY"

func TestNothingIsLeftOfAKilledTest(t *testing.T) {
	server := apiserver.Shared(t)
	if os.Getenv(addressOnly) != "" {
		fmt.Println(server.Config.Host)
		<-t.Context().Done()
	}
	command := exec.Command(os.Args[0], "-test.run", t.Name())
	command.Env, command.Stderr = append(os.Environ(), addressOnly+"=true", "TMPDIR="+t.TempDir()), os.Stderr
	output, err := command.StdoutPipe()
	apiserver.Must(t, err)
	apiserver.Must(t, command.Start())
	address, err := bufio.NewReader(output).ReadString('\n')
	apiserver.Must(t, err)
	apiserver.Must(t, command.Process.Kill())
	_ = command.Wait() // It was killed.
	deadline := time.After(time.Minute)
	for {
		connection, err := net.Dial("tcp", strings.TrimPrefix(strings.TrimSpace(address), "https://"))
		if err != nil {
			return
		}
		apiserver.Must(t, connection.Close())
		select {
		case <-deadline:
			t.Fatalf("%s still listens", address)
		case <-time.After(10 * time.Millisecond):
		}
	}
}
