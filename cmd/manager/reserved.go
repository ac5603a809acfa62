package main

import (
	"fmt"

	"github.com/spf13/pflag"

	"github.com/collection-operator/collection-operator/internal/collection/reserved"
)

// reservedSettings configure who may import the collections of a domain.
type reservedSettings struct {
	reservedDomains []string
}

func (s *reservedSettings) addFlags(flags *pflag.FlagSet) {
	flags.StringSliceVar(&s.reservedDomains, "reserved-domains", nil, "domains of collections, or domain/name, that only OperatorCollections of a namespace, or archives signed with a key, may have: DOMAIN=namespace:NAMESPACE or DOMAIN=key:FINGERPRINT, separated by commas; may be repeated; others are free")
}

func (s *reservedSettings) parse() (reserved.Domains, error) {
	domains, err := reserved.Parse(s.reservedDomains)
	if err != nil {
		return nil, fmt.Errorf("--reserved-domains: %w", err)
	}
	return domains, nil
}

func (s *reservedSettings) validate() error {
	_, err := s.parse()
	return err
}
