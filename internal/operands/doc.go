// Package operands has a package for each reconciler of the component operands: operandregistry and operandrequest. A reconciler never
// imports the other one. What they share is in cluster; plan and merge, which know no cluster, say what an OperandRequest wants. Tests
// here run both against an API server.
package operands
