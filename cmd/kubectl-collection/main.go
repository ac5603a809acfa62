// Command kubectl-collection is the tool of those who write and administer operator collections: it says what is wrong
// with a collection and what a cluster would make of it, without one. In a cluster it shows what the runs of playbooks did,
// and starts and cancels them. It also works as `kubectl collection` and `oc collection`.
package main

import "github.com/collection-operator/collection-operator/internal/cli"

func main() { cli.Main() }
