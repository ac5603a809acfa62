package crdplan

import (
	"errors"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	"github.com/collection-operator/collection-operator/internal/collection/crd"
	"github.com/collection-operator/collection-operator/internal/platform/intervals"
	"github.com/collection-operator/collection-operator/internal/platform/status"
)

// planFailure gives an error of [crd.Plan] its reason. Most may be resolved without a change of the spec.
func planFailure(err error) error {
	var e *crd.Error
	switch {
	case !errors.As(err, &e):
		return err
	case e.Reason == v2beta2.ReasonInvalidCollection:
		return status.Stalled(e.Reason, err)
	case e.Reason == v2beta2.ReasonProgressing:
		return status.Waiting(e.Reason, intervals.Poll, "%w", err)
	}
	return status.Waiting(e.Reason, intervals.Missing, "%w", err)
}
