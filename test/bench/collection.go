package main

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing/fstest"
)

// shape is a collection as large as somebody may have one. The same shape gives the same bytes.
type shape struct {
	name string
	// files counts all files of the archive, MANIFEST.json and FILES.json among them.
	files int
	// wheels are files that do not compress, like Python wheels; the others are text.
	wheels                int
	textBytes, wheelBytes int
}

// shapes are what is measured. The last has the files of the one before and four times the bytes: it shows whether memory
// grows with them.
var shapes = []shape{
	{name: "small", files: 10, textBytes: 40 << 10},
	{name: "large", files: 5_000, wheels: 20, textBytes: 30 << 20, wheelBytes: 20 << 20},
	{name: "huge", files: 5_000, wheels: 80, textBytes: 120 << 20, wheelBytes: 80 << 20},
}

const operatorConfig = `domain: acme
name: bench
version: 1.0.0
displayName: Bench
description: A collection to measure with.
resources:
  - kind: Region
    displayName: Region
    description: A region.
    playbook: playbooks/create.yml
    finalizer: playbooks/delete.yml
    vars:
      - {name: region, displayName: Region, description: Its name., type: string, required: true}
      - {name: size, displayName: Size, description: In MiB., type: integer, default: "16"}
`

// folder makes the collection's folder, as an author has it.
func (s shape) folder() fstest.MapFS {
	files := map[string]string{
		"galaxy.yml":           "namespace: acme\nname: bench\nversion: 1.0.0\nreadme: README.md\nauthors: [Acme]\n",
		"README.md":            "# Bench\n",
		"operator-config.yml":  operatorConfig,
		"meta/runtime.yml":     "requires_ansible: '>=2.14.0'\n",
		"playbooks/create.yml": "- name: Create\n  hosts: all\n  gather_facts: false\n  roles: [region0]\n",
		"playbooks/delete.yml": "- name: Delete\n  hosts: all\n  gather_facts: false\n  roles: [region0]\n",
	}
	folder := fstest.MapFS{}
	for name, content := range files {
		folder[name] = &fstest.MapFile{Data: []byte(content), Mode: 0o644}
	}
	random := rand.New(rand.NewPCG(1, 2))
	texts := s.files - s.wheels - len(files) - 1 // galaxy.yml is not in the archive, MANIFEST.json and FILES.json are
	for i := range texts {
		name := fmt.Sprintf("roles/region%d/tasks/part%d.yml", i/20, i%20)
		folder[name] = &fstest.MapFile{Data: tasks(random, s.textBytes/texts), Mode: 0o644}
	}
	for i := range s.wheels {
		wheel := make([]byte, s.wheelBytes/s.wheels)
		for at := range wheel {
			wheel[at] = byte(random.Uint32())
		}
		folder[fmt.Sprintf("wheels/part%d-1.0.0-py3-none-any.whl", i)] = &fstest.MapFile{Data: wheel, Mode: 0o644}
	}
	return folder
}

var words = strings.Fields(`region dataset member volume catalog queue manager transaction program library journal system
	the of to is has and with when unless after before create delete define alter display start stop submit copy rename`)

// tasks is about as many bytes of a file of tasks; it compresses as YAML does.
func tasks(random *rand.Rand, size int) []byte {
	word := func() string { return words[random.IntN(len(words))] }
	var b strings.Builder
	b.WriteString("---\n")
	for b.Len() < size {
		fmt.Fprintf(&b, "- name: %s %s %s %s %s\n  ibm.ibm_zos_core.zos_mvs_raw:\n    program_name: %s%d\n    parm: \"%s,%s=%d\"\n  register: %s_%d\n",
			word(), word(), word(), word(), word(), strings.ToUpper(word()), random.IntN(10000), word(), word(), random.Uint32(), word(), random.IntN(1000))
	}
	return []byte(b.String())
}
