package playbook

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/collection-operator/collection-operator/internal/author/playbook/jinja"
	"github.com/collection-operator/collection-operator/internal/collection/findings"
)

// taskReader adds what the tasks of a script do.
type taskReader struct {
	nameReader
	// local says that the play under way runs in the operator's pod only.
	local bool
}

// taskKeywords are the keys of a task that name no module.
var taskKeywords = []string{
	"any_errors_fatal", "args", "async", "become", "become_exe", "become_flags", "become_method", "become_user", "changed_when",
	"check_mode", "collections", "connection", "debugger", "delay", "delegate_facts", "delegate_to", "diff", "environment",
	"failed_when", "ignore_errors", "ignore_unreachable", "listen", "loop", "loop_control", "module_defaults", "name", "no_log",
	"notify", "poll", "port", "register", "remote_user", "retries", "run_once", "tags", "throttle", "timeout", "until", "vars", "when",
}

// tasks reads a list of tasks and blocks.
func (r *taskReader) tasks(node *yaml.Node) {
	for _, item := range elementsOf(node) {
		r.works = true
		entries := entriesOf(item)
		for _, e := range entries {
			r.taskKey(e)
		}
		if at := pauseWithoutTime(entries); at != nil {
			r.addInteractive(r.at(at, "pause"), "pause")
		}
	}
}

func (r *taskReader) taskKey(e entry) {
	switch e.key {
	case "block", "rescue", "always":
		r.tasks(e.value)
	case "when", "failed_when", "changed_when", "until":
		r.conditional(e.key, e.value)
	case "vars":
		r.vars(e.value)
	case "register":
		r.defineText(e.value)
	case "loop_control":
		r.loopControl(e.value)
	case "check_mode":
		r.checkMode(e)
	case "debugger":
		r.debugger(e)
	case "name", "tags", "notify", "listen", "collections":
		r.mention(e.value)
	case "action", "local_action":
		r.oldAction(e)
	default:
		isLoop := strings.HasPrefix(e.key, "with_")
		if text, ok := textOf(e.value); ok && isLoop {
			r.mentionWord(text) // with_dict: name
		}
		if isLoop || slices.Contains(taskKeywords, e.key) {
			r.need(e.value)
		} else {
			r.fullName(e.key, r.at(e.place(), e.key))
			r.noteObjects(e.key, e.value)
			r.action(shortName(e.key), e.value)
		}
	}
}

func (r *taskReader) loopControl(node *yaml.Node) {
	for _, e := range entriesOf(node) {
		if e.key == "loop_var" || e.key == "index_var" {
			r.defineText(e.value)
		}
		r.mention(e.value)
	}
}

// oldAction reads "action: module key=value" and "action: {module: ..., key: value}".
func (r *taskReader) oldAction(e entry) {
	if text, ok := textOf(e.value); ok {
		module, rest, _ := strings.Cut(strings.TrimSpace(text), " ")
		r.fullName(module, r.at(e.value, e.key))
		r.action(shortName(module), &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: rest, Line: e.value.Line, Column: e.value.Column})
		return
	}
	module := argument(e.value, "module")
	r.fullName(module, r.at(e.value, e.key))
	r.noteObjects(module, e.value)
	r.action(shortName(module), e.value)
}

// noteObjects notes the objects that a task of kubernetes.core works on, if their kind is known without a run.
func (r *taskReader) noteObjects(module string, args *yaml.Node) {
	if use, known := objectsOf(module, args); known && len(r.objects) < maxObjectUses {
		use.place = r.at(args, module)
		r.objects = append(r.objects, use)
	}
}

// action reads what a task runs. Modules that lead to other files or set variables are looked into; of all others the
// arguments are evaluated.
func (r *taskReader) action(module string, args *yaml.Node) {
	r.addsHosts = r.addsHosts || module == "add_host" || module == "group_by"
	switch module {
	case "set_fact", "add_host":
		r.setFact(args)
	case "include_vars":
		r.includeVars(args)
	case "include_tasks", "import_tasks", "include":
		r.includeTasks(args)
	case "include_role", "import_role":
		r.includeRole(args)
	case "assert":
		r.assert(args)
	case "debug":
		r.debug(args)
	case "template", "win_template":
		r.template(args)
	default:
		// Modules may set variables, and those that do are called so.
		r.definesAll = r.definesAll || strings.HasSuffix(module, "_facts") && module != "gather_facts"
		r.templatesOf(module, args)
		r.need(args)
	}
}

// maxUncheckable bounds the places of one file that are kept.
const maxUncheckable = 200

// falseWords are what YAML 1.1 and Ansible take for false.
var falseWords = []string{"false", "no", "off", "n", "f", "0"}

func (r *taskReader) checkMode(e entry) {
	r.need(e.value)
	if text, ok := textOf(e.value); ok && slices.Contains(falseWords, strings.ToLower(text)) && len(r.uncheckable) < maxUncheckable {
		r.uncheckable = append(r.uncheckable, r.at(e.place(), e.key))
	}
}

func (r *taskReader) debugger(e entry) {
	if text, ok := textOf(e.value); ok && text != "never" && !jinja.IsTemplate(text) {
		r.addInteractive(r.at(e.place(), e.key), e.key)
	}
}

// timed is how a pause is given a time, or something that is known only in a run.
var timed = regexp.MustCompile(`(?:^|\s)(?:seconds|minutes)=|\{\{`)

// pauseWithoutTime returns the place of a task's pause that waits for an answer, or nil. Arguments may be in the task's args, too.
func pauseWithoutTime(entries []entry) *yaml.Node {
	var at *yaml.Node
	for _, e := range entries {
		switch {
		case shortName(e.key) == "pause":
			at = e.place()
		case e.key == "action" || e.key == "local_action":
			text, _ := textOf(e.value)
			module, _, _ := strings.Cut(strings.TrimSpace(text), " ")
			if shortName(cmp.Or(module, argument(e.value, "module"))) != "pause" {
				continue
			}
			at = e.value
		case e.key != "args":
			continue
		}
		text, _ := textOf(e.value)
		if hasArgument(e.value, "seconds") || hasArgument(e.value, "minutes") || timed.MatchString(text) {
			return nil
		}
	}
	return at
}

func (r *taskReader) follow(l lead) {
	r.fullName(l.name, l.place)
	l.local = r.local
	r.leads = append(r.leads, l)
}

var keyValue = regexp.MustCompile(`([A-Za-z_][A-Za-z0-9_]*)=`)

func (r *taskReader) setFact(args *yaml.Node) {
	if text, ok := textOf(args); ok {
		for _, match := range keyValue.FindAllStringSubmatch(text, -1) {
			r.define(match[1])
		}
		r.definesAll = r.definesAll || jinja.IsTemplate(text) && !keyValue.MatchString(text)
	}
	for _, e := range entriesOf(args) {
		r.define(e.key)
	}
	r.need(args)
}

func (r *taskReader) includeVars(args *yaml.Node) {
	l := lead{place: r.at(args, "include_vars"), kind: toVars}
	named := false
	if text, ok := textOf(args); ok {
		l.name = firstWord(text, args)
	}
	for _, e := range entriesOf(args) {
		switch e.key {
		case "file":
			l.name = literal(e.value)
		case "name":
			r.defineText(e.value)
			named = true
		}
	}
	r.need(args)
	if named && l.name == "" { // The variables are members of that one; their values may use others.
		r.mayUseMore(l.notFollowed())
		return
	}
	r.follow(l)
}

// firstWord is the file in "file.yml key=value".
func firstWord(text string, node *yaml.Node) string {
	if name := literal(node); name == "" || strings.HasPrefix(name, "{{") || !strings.Contains(text, "=") {
		return name
	}
	name, _, _ := strings.Cut(strings.TrimSpace(text), " ")
	return name
}

func (r *taskReader) includeTasks(args *yaml.Node) {
	l := lead{place: r.at(args, "include_tasks"), kind: toTasks}
	if text, ok := textOf(args); ok {
		l.name = firstWord(text, args)
		for _, match := range keyValue.FindAllStringSubmatch(text, -1) {
			r.define(match[1])
		}
	}
	for _, e := range entriesOf(args) {
		switch e.key {
		case "file":
			l.name = literal(e.value)
		case "apply":
			r.apply(e.value)
		}
	}
	r.need(args)
	r.follow(l)
}

func (r *taskReader) includeRole(args *yaml.Node) {
	l := lead{place: r.at(args, "include_role"), kind: toRole}
	if text, ok := textOf(args); ok {
		for _, match := range nameArgument.FindAllStringSubmatch(text, 1) {
			l.name = match[1]
		}
	}
	for _, e := range entriesOf(args) {
		switch e.key {
		case "name", "role":
			l.name = literal(e.value)
		case "tasks_from":
			l.tasksFrom = r.partOfRole(e.value)
		case "vars_from":
			l.varsFrom = r.partOfRole(e.value)
		case "defaults_from":
			l.defaultsFrom = r.partOfRole(e.value)
		case "handlers_from":
			l.handlersFrom = r.partOfRole(e.value)
		case "apply":
			r.apply(e.value)
		}
	}
	r.need(args)
	r.follow(l)
}

var nameArgument = regexp.MustCompile(`(?:^|\s)name=([^\s{]+)(?:\s|$)`)

// partOfRole returns the file that tasks_from and the like name; one that is known only in a run may define anything.
func (r *taskReader) partOfRole(node *yaml.Node) string {
	name := literal(node)
	r.definesAll = r.definesAll || name == ""
	return cmp.Or(name, unknownPart)
}

func (r *taskReader) apply(node *yaml.Node) {
	for _, e := range entriesOf(node) {
		r.taskKey(e)
	}
}

func (r *taskReader) assert(args *yaml.Node) {
	for _, e := range entriesOf(args) {
		if e.key == "that" {
			r.conditional(e.key, e.value)
		} else {
			r.mention(e.value)
		}
	}
}

// debug takes the name in var for an expression, and prints it also if it is not defined.
func (r *taskReader) debug(args *yaml.Node) {
	r.take(jinja.ReadExpression(argument(args, "var")), nil)
	r.need(args)
}

// template reads a task that fills a template.
func (r *taskReader) template(args *yaml.Node) {
	r.fills(args, argument(args, "src"))
	r.need(args)
}

// fills takes a template that a task fills. One that is none of the collection's *.j2 files may use any variable.
func (r *taskReader) fills(task *yaml.Node, template string) {
	if !strings.HasSuffix(strings.TrimSpace(template), jinja.Suffix) {
		r.mayUseMore(fmt.Sprintf("%s, line %d, fills a template that is none of the collection's *%s files", r.file, task.Line, jinja.Suffix))
	}
}

// templatesOf takes the templates of modules that fill some if they are asked to: use_template of ibm.ibm_zos_core, and template of
// kubernetes.core.
func (r *taskReader) templatesOf(module string, args *yaml.Node) {
	if text, ok := textOf(args); ok && strings.Contains(text, "use_template") {
		r.fills(args, "")
	}
	if use := valueOf(args, "use_template"); use != nil {
		text, _ := textOf(resolved(use))
		if wanted, known := findings.ParseBoolean(text); wanted || !known {
			r.fills(args, argument(args, "src"))
		}
	}
	template := valueOf(args, "template")
	if template == nil || !strings.HasPrefix(module, "k8s") {
		return
	}
	for _, item := range elementsOf(template) {
		name, isText := textOf(item)
		if !isText {
			name = argument(item, "path")
		}
		r.fills(args, name)
	}
}
