package collection

import "strings"

// ID identifies a collection in all its versions. It is always the pair: "a-b" and "c" joined read like "a" and "b-c".
type ID struct {
	Domain, Name string
}

func (id ID) String() string { return id.Domain + "/" + id.Name }

// ID returns the collection's identity.
func (c *Collection) ID() ID { return ID{Domain: c.Domain, Name: c.Name} }

// OperatorName is the name of the collection's Deployment and ServiceAccount: "<domain>-<name>-operator" with the dots
// of domain and name replaced by dashes; a DNS-1123 label. Different collections may share it ("a-b" "c" and "a"
// "b-c"): identity is the pair of Domain and Name.
func (id ID) OperatorName() string {
	return strings.ReplaceAll(id.Domain+"-"+id.Name, ".", "-") + "-operator"
}
