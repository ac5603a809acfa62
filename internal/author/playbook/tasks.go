package playbook

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/collection-operator/collection-operator/internal/collection/findings"
)

// taskKeywords are the keys of a task that name no module.
var taskKeywords = []string{
	"any_errors_fatal", "args", "async", "become", "become_exe", "become_flags", "become_method", "become_user", "changed_when",
	"check_mode", "collections", "connection", "debugger", "delay", "delegate_facts", "delegate_to", "diff", "environment",
	"failed_when", "ignore_errors", "ignore_unreachable", "listen", "loop", "loop_control", "module_defaults", "name", "no_log",
	"notify", "poll", "port", "register", "remote_user", "retries", "run_once", "tags", "throttle", "timeout", "until", "vars", "when",
}

// tasks reads a list of tasks and blocks.
func (r *scriptReader) tasks(node *yaml.Node) {
	for _, item := range elementsOf(node) {
		r.works = true
		for _, e := range entriesOf(item) {
			r.taskKey(e)
		}
	}
}

func (r *scriptReader) taskKey(e entry) {
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
			r.objectsOf(e.key, e.value)
			r.action(shortName(e.key), e.value)
		}
	}
}

func (r *scriptReader) loopControl(node *yaml.Node) {
	for _, e := range entriesOf(node) {
		if e.key == "loop_var" || e.key == "index_var" {
			r.defineText(e.value)
		}
		r.mention(e.value)
	}
}

// oldAction reads "action: module key=value" and "action: {module: ..., key: value}".
func (r *scriptReader) oldAction(e entry) {
	if text, ok := textOf(e.value); ok {
		module, rest, _ := strings.Cut(strings.TrimSpace(text), " ")
		r.fullName(module, r.at(e.value, e.key))
		r.action(shortName(module), &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: rest, Line: e.value.Line, Column: e.value.Column})
		return
	}
	module := argument(e.value, "module")
	r.fullName(module, r.at(e.value, e.key))
	r.objectsOf(module, e.value)
	r.action(shortName(module), e.value)
}

// action reads what a task runs. Modules that lead to other files or set variables are looked into; of all others the
// arguments are evaluated.
func (r *scriptReader) action(module string, args *yaml.Node) {
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

var keyValue = regexp.MustCompile(`([A-Za-z_][A-Za-z0-9_]*)=`)

func (r *nameReader) setFact(args *yaml.Node) {
	if text, ok := textOf(args); ok {
		for _, match := range keyValue.FindAllStringSubmatch(text, -1) {
			r.define(match[1])
		}
		r.definesAll = r.definesAll || isTemplate(text) && !keyValue.MatchString(text)
	}
	for _, e := range entriesOf(args) {
		r.define(e.key)
	}
	r.need(args)
}

func (r *scriptReader) includeVars(args *yaml.Node) {
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

func (r *scriptReader) includeTasks(args *yaml.Node) {
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

func (r *scriptReader) includeRole(args *yaml.Node) {
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
func (r *scriptReader) partOfRole(node *yaml.Node) string {
	name := literal(node)
	r.definesAll = r.definesAll || name == ""
	return cmp.Or(name, unknownPart)
}

// unknownPart stands for a file of a role that is known only in a run. It is no file's name.
const unknownPart = "{{ }}"

func (r *scriptReader) apply(node *yaml.Node) {
	for _, e := range entriesOf(node) {
		r.taskKey(e)
	}
}

func (r *nameReader) assert(args *yaml.Node) {
	for _, e := range entriesOf(args) {
		if e.key == "that" {
			r.conditional(e.key, e.value)
		} else {
			r.mention(e.value)
		}
	}
}

// debug takes the name in var for an expression, and prints it also if it is not defined.
func (r *nameReader) debug(args *yaml.Node) {
	r.take(readExpression(argument(args, "var")), nil)
	r.need(args)
}

// template reads a task that fills a template.
func (r *nameReader) template(args *yaml.Node) {
	r.fills(args, argument(args, "src"))
	r.need(args)
}

// fills takes a template that a task fills. One that is none of the collection's *.j2 files may use any variable.
func (r *nameReader) fills(task *yaml.Node, template string) {
	if !strings.HasSuffix(strings.TrimSpace(template), templateSuffix) {
		r.mayUseMore(fmt.Sprintf("%s, line %d, fills a template that is none of the collection's *%s files", r.file, task.Line, templateSuffix))
	}
}

// templatesOf takes the templates of modules that fill some if they are asked to: use_template of ibm.ibm_zos_core, and template of
// kubernetes.core.
func (r *nameReader) templatesOf(module string, args *yaml.Node) {
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

// maxConditionNames bounds the variables of one condition.
const maxConditionNames = 20

// conditional reads one expression or a list of them.
func (r *nameReader) conditional(keyword string, node *yaml.Node) {
	node = resolved(node)
	for _, item := range elementsOf(node) {
		text, ok := textOf(item)
		if !ok {
			continue
		}
		place := r.at(item, keyword)
		if !isTemplate(text) {
			r.takeCondition(readExpression(text), place)
			continue
		}
		w := readTemplate(text)
		c := bracedCondition{place: place, keyword: keyword, inList: node.Kind == yaml.SequenceNode, text: text}
		for _, ref := range w.references {
			if !slices.Contains(c.names, ref.name) && len(c.names) < maxConditionNames {
				c.names = append(c.names, ref.name)
			}
		}
		r.conditions = append(r.conditions, c)
		r.takeCondition(w, place)
	}
}

// takeCondition takes what a condition says. A name that is given a default there counts as tested for: the condition
// may keep the task from running without it.
func (r *nameReader) takeCondition(w usage, place findings.Problem) {
	r.take(w, &place)
	for _, ref := range w.references {
		if !ref.needed {
			r.add(&r.tested, ref.name)
		}
	}
}

// need reads a value that is evaluated whenever the task or play runs.
func (r *nameReader) need(node *yaml.Node) { r.evaluate(node, true) }

// mention reads a value that may never be evaluated, or of which a failure does not matter.
func (r *nameReader) mention(node *yaml.Node) { r.evaluate(node, false) }

func (r *nameReader) evaluate(node *yaml.Node, needed bool) {
	node = resolved(node)
	if text, ok := textOf(node); ok && isTemplate(text) {
		var place *findings.Problem
		if needed {
			place = new(r.at(node, ""))
		}
		r.take(readTemplate(text), place)
	}
	for _, child := range node.Content {
		r.evaluate(child, needed)
	}
}

// take adds what a text says about variables; with a place, variables that it needs are needed there.
func (r *nameReader) take(w usage, place *findings.Problem) {
	if w.anything {
		r.mayUseMore(findings.Quote(r.file) + " uses variables whose names are known only in a run")
	}
	for _, word := range w.words {
		r.mentionWord(word)
	}
	for _, ref := range w.references {
		r.mentionWord(ref.name)
		r.wholeResource(ref.name, place)
		switch {
		case ref.tested:
			r.add(&r.tested, ref.name)
		case ref.needed && place != nil:
			r.needAt(ref.name, *place)
		}
	}
}

// wholeResource notes the use of a variable that holds a whole resource.
func (r *nameReader) wholeResource(name string, place *findings.Problem) {
	if !isWholeResource(name) || !r.room() {
		return
	}
	if place == nil {
		place = &findings.Problem{File: r.file}
	}
	r.wholeResources = append(r.wholeResources, named{place: *place, name: name})
}

func (r *nameReader) needAt(name string, place findings.Problem) {
	if _, known := r.needed[name]; known || !r.room() {
		return
	}
	if r.needed == nil {
		r.needed = map[string]findings.Problem{}
	}
	r.needed[name] = place
}

func (r *nameReader) mentionWord(word string) { r.add(&r.mentioned, word) }

// define notes that a variable gets a value. One with a template as name may be any.
func (r *nameReader) define(name string) {
	r.definesAll = r.definesAll || isTemplate(name)
	r.add(&r.defined, name) // A template is no identifier, and not added.
}

func (r *nameReader) defineText(node *yaml.Node) {
	if text, ok := textOf(node); ok {
		r.define(text)
	}
}

func (r *nameReader) add(set *map[string]bool, name string) {
	if (*set)[name] || !identifier.MatchString(name) || !r.room() {
		return
	}
	if *set == nil {
		*set = map[string]bool{}
	}
	(*set)[name] = true
}

// room reports whether another name may be kept. Beyond the bound any name may be used or defined.
func (r *nameReader) room() bool {
	if *r.namesLeft <= 0 {
		r.mayUseMore(tooMuch)
		r.definesAll = true
		return false
	}
	*r.namesLeft--
	return true
}

// at is a place in the file; path is the keyword there.
func (r *nameReader) at(node *yaml.Node, path string) findings.Problem {
	return findings.Problem{File: r.file, Line: node.Line, Column: node.Column, Path: path}
}
