//go:build e2e

package e2e

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing/fstest"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	. "github.com/collection-operator/collection-operator/test/fixture"
)

// domain of every collection of the specs.
const domain = "example"

// mirrorResource is a kind that shows what templates make of a resource's text, added to the sample collection. The
// fields of its object have the names of variables that would send a playbook elsewhere.
const mirrorResource = `
  - kind: Mirror
    playbook: mirror.yml
    vars:
      - {name: text, displayName: Text, type: string}
      - {name: texts, displayName: Texts, type: string, array: true}
      - {name: defaulted, displayName: Defaulted, type: string, default: "EVIL"}
      - {name: reference, displayName: Reference, type: string, kindReference: DataFile}
      - {name: mirrorSecret, displayName: Secret, type: password}
      - {name: choice, displayName: Choice, type: string, options: [one, two]}
      - {name: count, displayName: Count, type: integer}
      - {name: ratio, displayName: Ratio, type: number}
      - {name: flag, displayName: Flag, type: boolean}
      - name: nested
        displayName: Nested
        type: object
        objectVariables:
          - {name: inner, displayName: Inner, type: string}
          - {name: ansible_connection, displayName: Connection, type: string}
          - {name: ansible_host, displayName: Host, type: string}
          - {name: zoscb_playbook, displayName: Playbook, type: string}
          - {name: zosendpoint, displayName: Endpoint, type: string}
      - name: rows
        displayName: Rows
        type: object
        array: true
        objectVariables:
          - {name: inner, displayName: Inner, type: string}
roles:
`

const mirrorPlaybook = `
- name: Show what templates make of a resource
  hosts: all
  gather_facts: false
  tasks:
    - name: Read the resource
      kubernetes.core.k8s_info:
        api_version: "{{ k8s_cr_version }}"
        kind: Mirror
        name: "{{ ansible_operator_meta.name }}"
        namespace: "{{ ansible_operator_meta.namespace }}"
      delegate_to: localhost
      register: this

    - name: Write what it says
      ansible.builtin.command:
        cmd: tee {{ zos_files_base }}/{{ ansible_operator_meta.name }}.mirror
        stdin: |
          text={{ text }}
          texts={{ texts[0] }}
          defaulted={{ defaulted }}
          reference={{ reference }}
          nested={{ nested.inner }}
          rows={{ rows[0].inner }}
          annotation={{ this.resources[0].metadata.annotations.note }}
          spec={{ _suboperator_zoscb_ibm_com_mirror_spec.text }}
          whole={{ _suboperator_zoscb_ibm_com_mirror }}
          secret={{ mirrorSecret }}
          nested connection={{ nested.ansible_connection }}
          nested host={{ nested.ansible_host }}
          nested playbook={{ nested.zoscb_playbook }}
          nested endpoint={{ nested.zosendpoint }}
          endpoint={{ inventory_hostname }}
          connection={{ ansible_connection | default('ssh') }}
          host={{ ansible_host }}
          playbook={{ zoscb_playbook | basename }}
`

// waitBeforeRemoval makes the removal of a data file that waited for another file wait as well.
const waitBeforeRemoval = `
- name: Wait before the removal
  ansible.builtin.wait_for:
    path: "{{ zos_files_base }}/remove-{{ wait_for_file }}"
    timeout: 300
  when: wait_for_file | length > 0

`

// minimal is the folder of the smallest collection there can be; changes replace files, or remove them if they are empty.
func minimal(name, kind string, changes map[string]string) fstest.MapFS {
	return minimalOf(domain, name, kind, changes)
}

func minimalOf(domain, name, kind string, changes map[string]string) fstest.MapFS {
	config := strings.NewReplacer("DOMAIN", domain, "NAME", name, "KIND", kind).Replace(`
domain: DOMAIN
name: NAME
version: 1.0.0
displayName: NAME
resources:
  - kind: KIND
    playbook: play.yml
`)
	return Minimal(domain, name, "1.0.0", config, changes)
}

// buildArchives makes all archives of the specs.
func buildArchives() {
	GinkgoHelper()
	sample := fstest.MapFS{}
	root := os.DirFS(filepath.Join(projectDir, "test", "collections", "files"))
	Expect(fs.WalkDir(root, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		content, err := fs.ReadFile(root, name)
		sample[name] = &fstest.MapFile{Data: content, Mode: 0o644}
		return err
	})).To(Succeed())
	config := string(sample["operator-config.yml"].Data)
	Expect(config).To(ContainSubstring("\nroles:\n"))
	sample["operator-config.yml"].Data = []byte(strings.Replace(config, "\nroles:\n", strings.ReplaceAll(mirrorResource, "EVIL", evil), 1))
	sample["mirror.yml"] = &fstest.MapFile{Data: []byte(mirrorPlaybook), Mode: 0o644}

	removal := sample["roles/datafile/tasks/remove.yml"]
	removal.Data = append([]byte(waitBeforeRemoval), removal.Data...)

	archives["files.tar.gz"] = Build(sample)
	archives["uploaded.tar.gz"] = Build(minimal("uploaded", "UploadedThing", nil))
	archives["second.tar.gz"] = Build(minimal("second", "SecondThing", nil))
	archives["good.tar.gz"] = Build(minimal("bad", "BadThing", nil))
}

func archiveURL(name string) string {
	return "http://archives." + namespace + ".svc.cluster.local/" + name
}

// pinned is the spec of an OperatorCollection whose digest is right.
func pinned(archive string) v2beta2.OperatorCollectionSpec {
	return v2beta2.OperatorCollectionSpec{CollectionURL: archiveURL(archive), Digest: digest(archive)}
}

func digest(name string) string { return DigestOf(archives[name]) }
