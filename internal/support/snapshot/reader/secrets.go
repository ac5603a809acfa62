package reader

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"strconv"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/collection-operator/collection-operator/internal/support/snapshot"
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
	isComplete := true
	next := ""
	for {
		raw, err := c.core.Get().Namespace(namespace).Resource("secrets").SetHeader("Accept", acceptTable).
			Param("limit", strconv.Itoa(secretsPage)).Param("continue", next).Do(ctx).Raw()
		if err != nil {
			c.failed(err, "Secrets", namespace)
			return
		}
		page, err := pageOf(raw)
		if err != nil {
			c.failed(err, "Secrets", namespace)
			return
		}
		found = append(found, page.secrets...)
		isComplete = isComplete && page.isComplete
		if next = page.next; next == "" {
			break
		}
		if len(found) >= maxObjects {
			isComplete = false
			break
		}
	}
	if !isComplete {
		c.unread("some Secrets in namespace " + namespace + " were not read")
	}
	c.mutex.Lock()
	defer c.mutex.Unlock()
	c.snapshot.Lists++
	c.snapshot.Secrets = append(c.snapshot.Secrets, found...)
	if isComplete {
		c.snapshot.Completed(snapshot.Secrets, namespace)
	}
}

// secretPage is a part of the Secrets of a namespace.
type secretPage struct {
	secrets []snapshot.Secret
	// isComplete is false if a row could not be read.
	isComplete bool
	// next continues the list, or is empty.
	next string
}

// pageOf reads an answer. The error is that it is not a table of Secrets: who does not serve tables answers with something else.
func pageOf(raw []byte) (*secretPage, error) {
	table := &metav1.Table{}
	if err := json.Unmarshal(raw, table); err != nil || table.Kind != "Table" {
		return nil, errors.New("the API server did not answer with a table")
	}
	column := func(name string) int {
		return slices.IndexFunc(table.ColumnDefinitions, func(c metav1.TableColumnDefinition) bool { return c.Name == name })
	}
	kind, data := column("Type"), column("Data")
	if kind < 0 || data < 0 {
		return nil, errors.New("the API server answered with a table without the columns Type and Data")
	}
	page := &secretPage{isComplete: true, next: table.Continue}
	for i := range table.Rows {
		secret, ok := secretOf(&table.Rows[i], kind, data)
		if !ok {
			page.isComplete = false
			continue
		}
		page.secrets = append(page.secrets, secret)
	}
	return page, nil
}

// secretOf reads a row with the type and the number of keys in two columns.
func secretOf(row *metav1.TableRow, kind, data int) (secret snapshot.Secret, ok bool) {
	var object metav1.PartialObjectMetadata
	if err := json.Unmarshal(row.Object.Raw, &object); err != nil || object.Name == "" || len(row.Cells) <= max(kind, data) {
		return snapshot.Secret{}, false
	}
	secretType, isText := row.Cells[kind].(string)
	keys, isNumber := row.Cells[data].(float64) // As encoding/json reads it.
	return snapshot.Secret{
		Namespace: object.Namespace, Name: object.Name, Labels: object.Labels, Annotations: slices.Sorted(maps.Keys(object.Annotations)),
		CreationTimestamp: object.CreationTimestamp, DeletionTimestamp: object.DeletionTimestamp, Type: secretType, Keys: int64(keys),
	}, isText && isNumber
}
