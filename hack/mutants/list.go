package main

import "slices"

// mutations returns all faults that tests have to find.
func mutations() []mutation {
	return slices.Concat(ofObjects, ofReconcilers, ofRuns, ofCredentials, ofOperands)
}
