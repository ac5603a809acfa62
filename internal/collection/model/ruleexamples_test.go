package model

import (
	"testing"

	"github.com/collection-operator/collection-operator/test/rulecase"
)

// The page of the rules shows cases of this package.
func TestRuleExamples(t *testing.T) {
	var cases []rulecase.Case
	for _, c := range ruleCases {
		cases = append(cases, rulecase.Case{Rule: c.rule, Files: c.files, Broken: len(c.want) > 0, Problems: problemsOf(t, c.fsys())})
	}
	rulecase.CheckGolden(t, *update, rulecase.Examples(sound, cases))
}
