package collection

// ID identifies a collection in all its versions. It is always the pair: "a-b" and "c" joined read like "a" and "b-c".
type ID struct {
	Domain, Name string
}

func (id ID) String() string { return id.Domain + "/" + id.Name }

// ID returns the collection's identity.
func (c *Collection) ID() ID { return ID{Domain: c.Domain, Name: c.Name} }
