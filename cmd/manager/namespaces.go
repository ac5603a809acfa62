package main

import (
	"fmt"
	"strings"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/util/validation"
)

// namespaceSettings select the namespaces that the manager uses.
type namespaceSettings struct {
	names []string
}

func (s *namespaceSettings) addFlags(flags *pflag.FlagSet) {
	flags.StringSliceVar(&s.names, "namespaces", nil, "namespaces in which the manager reads Secrets and installs operators; may be repeated; if not set, all namespaces")
}

func (s *namespaceSettings) validate() error {
	for _, name := range s.names {
		if problems := validation.IsDNS1123Label(name); len(problems) > 0 {
			return fmt.Errorf("--namespaces: %q is no name of a namespace: %s", name, strings.Join(problems, "; "))
		}
	}
	return nil
}
