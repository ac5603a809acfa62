package reader

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/collection-operator/collection-operator/internal/snapshot"
)

const (
	// acceptTable asks for the table that kubectl prints: the API server sends neither keys nor values of a Secret.
	acceptTable = "application/json;as=Table;v=v1;g=meta.k8s.io"
	// secretsPage is the number of Secrets that are read with one request: their annotations may be large.
	secretsPage = 100
)

// secrets reads type, labels and number of keys of the Secrets of a namespace.
func (c *collecting) secrets(ctx context.Context, namespace string) {
	var found []snapshot.Secret
	next := ""
	for {
		raw, err := c.core.Get().Namespace(namespace).Resource("secrets").SetHeader("Accept", acceptTable).
			Param("limit", strconv.Itoa(secretsPage)).Param("continue", next).Do(ctx).Raw()
		if err != nil {
			c.unread(unreadable(err, "Secrets", namespace))
			return
		}
		table := &metav1.Table{}
		if err := json.Unmarshal(raw, table); err != nil {
			c.unread(fmt.Sprintf("Secrets in namespace %s: the API server did not answer with a table", namespace))
			return
		}
		for i := range table.Rows {
			if secret, err := secretOf(table, &table.Rows[i]); err == nil {
				found = append(found, secret)
			}
		}
		if next = table.Continue; next == "" || len(found) >= maxObjects {
			break
		}
	}
	c.mutex.Lock()
	defer c.mutex.Unlock()
	c.snapshot.Lists++
	c.snapshot.Secrets = append(c.snapshot.Secrets, found...)
	if len(found) < maxObjects {
		c.snapshot.Completed(snapshot.Secrets, namespace)
	}
}

// secretOf reads a row with the columns Name, Type and Data.
func secretOf(table *metav1.Table, row *metav1.TableRow) (snapshot.Secret, error) {
	var object metav1.PartialObjectMetadata
	if err := json.Unmarshal(row.Object.Raw, &object); err != nil {
		return snapshot.Secret{}, err
	}
	secret := snapshot.Secret{
		Namespace: object.Namespace, Name: object.Name, Labels: object.Labels, Annotations: slices.Sorted(maps.Keys(object.Annotations)),
		CreationTimestamp: object.CreationTimestamp, DeletionTimestamp: object.DeletionTimestamp,
	}
	for i, column := range table.ColumnDefinitions {
		if i >= len(row.Cells) {
			break
		}
		switch value := row.Cells[i].(type) {
		case string:
			if column.Name == "Type" {
				secret.Type = value
			} else if column.Name == "Data" {
				secret.Keys, _ = strconv.ParseInt(value, 10, 64)
			}
		case int64:
			secret.Keys = value
		case float64:
			secret.Keys = int64(value)
		}
	}
	return secret, nil
}

// unreadable returns a sentence about objects that could not be read, and "" if there are none because their kind is not served.
func unreadable(err error, what, namespace string) string {
	where := ""
	if namespace != "" {
		where = " in namespace " + namespace
	}
	switch {
	case apierrors.IsNotFound(err):
		return ""
	case apierrors.IsForbidden(err), apierrors.IsUnauthorized(err):
		return "you may not read " + what + where
	}
	return what + where + " could not be read: " + err.Error()
}
