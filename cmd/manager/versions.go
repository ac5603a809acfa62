package main

import (
	"errors"
	"time"

	"github.com/spf13/pflag"

	"github.com/collection-operator/collection-operator/internal/collection/crd"
	"github.com/collection-operator/collection-operator/internal/platform/intervals"
)

// versionSettings configure when versions of CRDs end that nothing uses.
type versionSettings struct{ ages crd.Ages }

func (s *versionSettings) addFlags(flags *pflag.FlagSet) {
	flags.DurationVar(&s.ages.Retention, "version-retention", 90*24*time.Hour, "age from which on a version of a CRD that nothing uses is deprecated; the newest ten versions remain")
	flags.DurationVar(&s.ages.Deprecation, "version-deprecation-period", 30*24*time.Hour, "time for which such a version is deprecated before it is not served any more, and then not served before it is removed")
}

func (s *versionSettings) validate() error {
	s.ages.Settles = intervals.StorageSettles
	if s.ages.Retention < time.Second || s.ages.Deprecation < time.Second {
		return errors.New("--version-retention and --version-deprecation-period must be at least 1s")
	}
	return nil
}
