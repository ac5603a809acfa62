package playbook

import (
	"cmp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/collection-operator/collection-operator/internal/collection/findings"
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
	conditions []bracedCondition
	// prompts are variables that the playbook would ask a person for, settings those of the connection that get a value.
	prompts, settings []named
	leads             []lead
	// uncheckable are the places of check_mode: false.
	uncheckable []findings.Problem
	// addsHosts says that a task adds hosts or groups to the inventory.
	addsHosts bool
	// objects are the objects in Kubernetes that tasks work on.
	objects []objectUse
	// wholeResources are uses of variables that hold a whole resource, ownNames those of the collection's content by full name.
	wholeResources, ownNames []named
	variables
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

// nameReader adds the names of variables that a script defines, needs or mentions.
type nameReader struct {
	*script
	// namesLeft bounds the names of all scripts.
	namesLeft *int
	// unfindable are the beginnings of full names of the collection's own content, if Ansible cannot find it by them.
	unfindable []string
}

// scriptReader fills a script from the YAML of its file.
type scriptReader struct {
	nameReader
	// local says that the play under way runs in the operator's pod only.
	local bool
}

// playbook reads a list of plays.
func (r *scriptReader) playbook(root *yaml.Node) {
	root = resolved(root)
	switch {
	case isNull(root) || root.Kind == yaml.SequenceNode && len(root.Content) == 0:
		r.markBroken(root, "the playbook is empty; it needs at least one play")
		return
	case root.Kind != yaml.SequenceNode:
		r.markBroken(root, "a playbook is a list of plays: begin each with \"- hosts: all\"")
		return
	}
	for _, node := range root.Content {
		if node = resolved(node); node.Kind != yaml.MappingNode {
			r.markBroken(node, "each element of a playbook is a play (- hosts: all) or an import_playbook")
			return
		}
		r.play(node)
	}
}

func (r *scriptReader) markBroken(node *yaml.Node, message string) {
	r.broken = r.at(node, "")
	r.broken.Message = message
}

func (r *scriptReader) play(node *yaml.Node) {
	entries := entriesOf(node)
	for _, e := range entries {
		if shortName(e.key) == "import_playbook" || e.key == "include" {
			r.importPlaybook(e, entries)
			return
		}
	}
	p := r.hosts(node, entries)
	r.plays = append(r.plays, p)
	r.local = p.localOnly()
	for _, e := range entries {
		r.playKey(e)
	}
	r.local = false
}

func (r *scriptReader) importPlaybook(e entry, entries []entry) {
	name := literal(e.value)
	r.follow(lead{place: r.at(e.value, e.key), kind: toPlaybook, name: name})
	for _, other := range entries {
		switch other.key {
		case "when":
			r.conditional(other.key, other.value)
		case "vars":
			r.vars(other.value)
		}
	}
}

func (r *scriptReader) hosts(node *yaml.Node, entries []entry) play {
	i := slices.IndexFunc(entries, func(e entry) bool { return e.key == "hosts" })
	if i < 0 {
		return play{place: r.at(node, "hosts"), missing: true}
	}
	value := entries[i].value
	p := play{place: r.at(entries[i].place(), "hosts"), single: value.Kind == yaml.ScalarNode}
	for _, item := range elementsOf(value) {
		text, ok := textOf(item)
		if !ok {
			p.strange = true
			continue
		}
		if isTemplate(text) {
			p.hosts = append(p.hosts, text)
			continue
		}
		for _, host := range strings.Split(text, ",") {
			p.hosts = append(p.hosts, strings.TrimSpace(host))
		}
	}
	p.missing = !p.strange && (len(p.hosts) == 0 || len(p.hosts) == 1 && p.hosts[0] == "")
	return p
}

func (r *scriptReader) playKey(e entry) {
	switch e.key {
	case "hosts", "name", "collections":
		r.mention(e.value)
	case "vars":
		r.vars(e.value)
		r.connection(e.value)
	case "vars_files":
		r.varsFiles(e.value)
	case "vars_prompt":
		r.varsPrompt(e.value)
	case "roles":
		r.roles(e.value)
	case "tasks", "pre_tasks", "post_tasks", "handlers":
		r.tasks(e.value)
	case "connection":
		if text, _ := textOf(e.value); text == "local" {
			r.set(e)
		}
		r.need(e.value)
	case "check_mode":
		r.checkMode(e)
	default:
		r.need(e.value)
	}
}

// maxUncheckable bounds the places of one file that are kept.
const maxUncheckable = 200

// falseWords are what YAML 1.1 and Ansible take for false.
var falseWords = []string{"false", "no", "off", "n", "f", "0"}

func (r *scriptReader) checkMode(e entry) {
	r.need(e.value)
	if text, ok := textOf(e.value); ok && slices.Contains(falseWords, strings.ToLower(text)) && len(r.uncheckable) < maxUncheckable {
		r.uncheckable = append(r.uncheckable, r.at(e.place(), e.key))
	}
}

func (r *scriptReader) follow(l lead) {
	r.fullName(l.name, l.place)
	l.local = r.local
	r.leads = append(r.leads, l)
}

// maxOwnNames bounds the names of one file that are kept.
const maxOwnNames = 200

// fullName notes the full name of a module, role or playbook that Ansible cannot find.
func (r *nameReader) fullName(name string, place findings.Problem) {
	if len(r.ownNames) < maxOwnNames && slices.ContainsFunc(r.unfindable, func(own string) bool { return strings.HasPrefix(name, own) }) {
		r.ownNames = append(r.ownNames, named{place: place, name: name})
	}
}

// vars reads variables and their values. Values are evaluated only where the variables are used.
func (r *nameReader) vars(node *yaml.Node) {
	node = resolved(node)
	switch node.Kind {
	case yaml.SequenceNode:
		for _, item := range node.Content {
			r.vars(item)
		}
	case yaml.MappingNode:
		for _, e := range entriesOf(node) {
			r.define(e.key)
			r.mention(e.value)
		}
	default:
		r.mention(node)
		r.definesAll = r.definesAll || !isNull(node)
	}
}

// connection notes the variables of the connection to the endpoint that are given a value.
func (r *scriptReader) connection(node *yaml.Node) {
	for _, list := range elementsOf(node) {
		for _, e := range entriesOf(list) {
			if slices.Contains(connectionVars, e.key) || e.key == pythonInterpreter {
				r.set(e)
			}
		}
	}
}

func (r *scriptReader) set(e entry) {
	if !r.local {
		r.settings = append(r.settings, named{place: r.at(e.place(), e.key), name: e.key})
	}
}

func (r *scriptReader) varsFiles(node *yaml.Node) {
	for _, item := range elementsOf(node) {
		for _, file := range elementsOf(item) {
			r.mention(file)
			r.follow(lead{place: r.at(file, "vars_files"), kind: toVars, name: literal(file)})
		}
	}
}

func (r *nameReader) varsPrompt(node *yaml.Node) {
	for _, item := range elementsOf(node) {
		var p named
		hasDefault := false
		for _, e := range entriesOf(item) {
			switch e.key {
			case "name":
				p.name, _ = textOf(e.value)
				p.place = r.at(e.place(), "vars_prompt")
			case "default":
				hasDefault = !isNull(e.value)
			}
		}
		r.define(p.name)
		if p.name != "" && !hasDefault {
			r.prompts = append(r.prompts, p)
		}
	}
}

// roleKeywords are the keys of an element of roles that are no variables for the role.
var roleKeywords = []string{"role", "name", "when", "vars", "tags", "become", "become_user", "become_method", "delegate_to", "collections", "environment"}

// roles reads the roles of a play, or the dependencies of a role.
func (r *scriptReader) roles(node *yaml.Node) {
	for _, item := range elementsOf(node) {
		l := lead{place: r.at(item, "roles"), kind: toRole}
		if item.Kind != yaml.MappingNode {
			r.mention(item)
			l.name = literal(item)
		}
		for _, e := range entriesOf(item) {
			switch {
			case e.key == "role" || e.key == "name" && l.name == "":
				l.name = literal(e.value)
			case e.key == "when":
				r.conditional(e.key, e.value)
			case e.key == "vars":
				r.vars(e.value)
			case e.key == "check_mode":
				r.checkMode(e)
			case !slices.Contains(roleKeywords, e.key):
				r.define(e.key)
			}
			r.mention(e.value)
		}
		r.follow(l)
	}
}

// varsFile reads a file of variables: of vars_files, group_vars, or a role's defaults and vars. A variable that has a
// value there counts as mentioned: somebody meant it to be used.
func (r *scriptReader) varsFile(root *yaml.Node) {
	for _, e := range entriesOf(root) {
		r.mentionWord(e.key)
	}
	r.vars(root)
}

// meta reads a role's meta/main.yml: the roles that run before it. The words in it may be names of its arguments.
func (r *scriptReader) meta(root *yaml.Node) {
	for _, e := range entriesOf(root) {
		if e.key == "dependencies" {
			r.roles(e.value)
		} else {
			r.mentionKeys(e.value)
		}
	}
}

func (r *nameReader) mentionKeys(node *yaml.Node) {
	for _, e := range entriesOf(node) {
		r.mentionWord(e.key)
		r.mentionKeys(e.value)
	}
}
