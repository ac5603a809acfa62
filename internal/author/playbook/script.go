package playbook

import (
	"cmp"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/collection-operator/collection-operator/internal/author/playbook/jinja"
	"github.com/collection-operator/collection-operator/internal/collection/findings"
)

// scriptKind says what a file is read as.
type scriptKind int

const (
	asPlaybook scriptKind = iota
	asTasks
	asVars
	asDefaults
	asMeta
	asTemplate
)

// script is what the rules need to know of one file of a playbook or role: of the YAML itself nothing is kept. What is
// not understood is skipped, because Ansible may understand it.
type script struct {
	file string
	// unknown says that the file is there and its content is not known: too large, encrypted or no YAML.
	unknown bool
	// broken is why Ansible cannot run the file, with its place; its Message is "" if it can.
	broken findings.Problem

	plays      []play
	conditions []jinja.BracedCondition
	// prompts are variables that the playbook would ask a person for, settings those of the connection that get a value.
	prompts, settings []named
	leads             []lead
	// uncheckable are the places of check_mode: false.
	uncheckable []findings.Problem
	// interactive are what would wait for somebody at a terminal, besides prompts: pause, debugger and strategy.
	interactive []named
	// addsHosts says that a task adds hosts or groups to the inventory.
	addsHosts bool
	// objects are the objects in Kubernetes that tasks work on.
	objects []objectUse
	// wholeResources are uses of variables that hold a whole resource, ownNames those of the collection's content by full name.
	wholeResources, ownNames []named
	variables
}

// maxInteractive bounds the uses of a terminal in one file that are kept.
const maxInteractive = 200

func (s *script) addInteractive(place findings.Problem, key string) {
	if len(s.interactive) < maxInteractive {
		s.interactive = append(s.interactive, named{place: place, name: key})
	}
}

// variables is what files say about the variables of a run. The maps may be nil.
type variables struct {
	// needed are the variables that a task cannot do without, with the first place of each.
	needed map[string]findings.Problem
	// mentioned are all words in expressions, tested the names that are asked for, defined those that get a value.
	mentioned, tested, defined map[string]bool
	// unseen says why more variables may be used than can be seen, "" if they may not.
	unseen string
	// definesAll says that more variables may be defined than can be seen.
	definesAll bool
	// works says that there is a task.
	works bool
}

// mayUseMore notes the first reason why more variables may be used than can be seen.
func (v *variables) mayUseMore(why string) { v.unseen = cmp.Or(v.unseen, why) }

// tooMuch is why a run is not looked into further.
const tooMuch = "there is too much to look into"

// play is the hosts of one play.
type play struct {
	place findings.Problem
	hosts []string
	// strange says that hosts is nothing that can be read; missing that there is none; single that it is one text.
	missing, strange, single bool
}

// localOnly reports whether the play runs in the operator's pod.
func (p play) localOnly() bool {
	return len(p.hosts) > 0 && !slices.ContainsFunc(p.hosts, func(host string) bool { return !isLocalhost(host) })
}

func isLocalhost(host string) bool { return host == "localhost" || host == "127.0.0.1" }

// named is a variable or keyword with its place.
type named struct {
	place findings.Problem
	name  string
}

// objectUse is a task that reads or writes objects of one kind in Kubernetes.
type objectUse struct {
	place findings.Problem
	kind  schema.GroupVersionKind
	verbs []string
}

type leadKind int

const (
	toPlaybook leadKind = iota
	toTasks
	toVars
	toRole
)

// lead is the name of a file or role that belongs to the run, too. An empty name is one that is known only in a run.
type lead struct {
	place findings.Problem
	kind  leadKind
	name  string
	// tasksFrom and the like are the files that an include_role asks for in the role.
	tasksFrom, varsFrom, defaultsFrom, handlersFrom string
	// local says that it belongs to a play that runs in the operator's pod only.
	local bool
}

// notFollowed says why the lead does not lead to a file that can be read.
func (l lead) notFollowed() string {
	at := fmt.Sprintf("%s, line %d, ", l.place.File, l.place.Line)
	if l.name == "" {
		return at + "leads to a file that is known only in a run"
	}
	return at + "leads to " + findings.Quote(l.name) + ", which is not in the collection"
}

// unknownPart stands for a file of a role that is known only in a run. It is no file's name.
const unknownPart = "{{ }}"
