package playbook

import (
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/collection-operator/collection-operator/internal/author/playbook/jinja"
)

// scriptReader fills a script from the YAML of its file.
type scriptReader struct{ taskReader }

func (r *scriptReader) read(kind scriptKind, root *yaml.Node) {
	switch kind {
	case asPlaybook:
		r.playbook(root)
	case asTasks:
		r.tasks(root)
	case asVars:
		r.varsFile(root)
		r.connection(root)
	case asDefaults:
		r.varsFile(root)
	case asMeta:
		r.meta(root)
	}
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
		if jinja.IsTemplate(text) {
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
	case "debugger":
		r.debugger(e)
	case "strategy":
		if text, _ := textOf(e.value); shortName(text) == "debug" {
			r.addInteractive(r.at(e.place(), e.key), e.key)
		}
	default:
		r.need(e.value)
	}
}

const pythonInterpreter = "ansible_python_interpreter"

// connectionVars say how a host is reached. The manager gives them to each endpoint; what a play sets beats that.
var connectionVars = []string{
	"ansible_connection", "ansible_host", "ansible_ssh_host", "ansible_port", "ansible_ssh_port", "ansible_user", "ansible_ssh_user",
	"ansible_password", "ansible_ssh_pass", "ansible_ssh_password", "ansible_private_key_file", "ansible_ssh_private_key_file",
	"ansible_ssh_args", "ansible_ssh_common_args", "ansible_ssh_extra_args", "ansible_ssh_executable", "ansible_pipelining",
	"ansible_ssh_pipelining", "ansible_remote_tmp",
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

func (r *scriptReader) varsPrompt(node *yaml.Node) {
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
			case e.key == "debugger":
				r.debugger(e)
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
