package author

import (
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"text/template"
	"unicode"

	"github.com/spf13/cobra"

	"github.com/collection-operator/collection-operator/internal/author/lint"
	"github.com/collection-operator/collection-operator/internal/author/scenario"
	"github.com/collection-operator/collection-operator/internal/cli/kit"
)

//go:embed scaffold
var scaffold embed.FS

// scaffoldTemplates parses the files of a new collection. Their delimiters leave those of Ansible alone.
var scaffoldTemplates = template.Must(template.New("").Delims("<<", ">>").Option("missingkey=error").
	ParseFS(scaffold, "scaffold/*"))

// newCollection is what differs between new collections.
type newCollection struct {
	Domain, Name, Kind           string
	Namespace, GalaxyName        string
	DisplayName, KindDisplayName string
	// Playbook is the name of the kind's playbook in the folder playbooks.
	Playbook string
	// Tool is the Go package of this tool, with the version that is installed in continuous integration.
	Tool string
}

func initCommand() *cobra.Command {
	var c newCollection
	cmd := &cobra.Command{
		Use:   "init DIR",
		Short: "Create a collection with one working kind",
		Long: `Create a small collection in a folder, which is created if it does not exist: one kind, with a playbook that writes a file on
the z/OS system and removes it again, a scenario that tests it, and a GitHub workflow that lints, builds and tests it. It
passes lint and test, and runs as it is. Change it from there.

Files are not overwritten. If one of them exists, nothing is written.`,
		Example: `  # A collection named after its folder
  kubectl collection init zos_users

  # Say what it is called
  kubectl collection init ./users --domain acme --name zos-users --kind User --display-name "z/OS users"`,
		Args: kit.Exactly(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := c.complete(args[0]); err != nil {
				return err
			}
			files, err := c.files()
			if err != nil {
				return err
			}
			if err := writeFiles(args[0], files); err != nil {
				return err
			}
			return printCreated(cmd.OutOrStdout(), args[0], files)
		},
	}
	cmd.Flags().StringVar(&c.Domain, "domain", "example", "first half of the identity: your organisation; the namespace in Ansible Galaxy")
	cmd.Flags().StringVar(&c.Name, "name", "", "second half of the identity (default: the folder's name)")
	cmd.Flags().StringVar(&c.Kind, "kind", "", "the kind of resources, in Pascal case (default: made of the name)")
	cmd.Flags().StringVar(&c.DisplayName, "display-name", "", "what the collection is called in catalogs (default: made of the name)")
	return cmd
}

// Names of a collection fit both worlds: Kubernetes takes no _, and Ansible no -.
var (
	namePattern = regexp.MustCompile(`^[a-z][a-z0-9]*([-_][a-z0-9]+)*$`)
	kindPattern = regexp.MustCompile(`^[A-Z][A-Za-z0-9]*$`)
)

// maxNames bounds domain and name together: what is made of them has at most 63 characters. maxKind is that of kinds.
const (
	maxNames = 40
	maxKind  = 59
)

const toolPackage = "github.com/collection-operator/collection-operator/cmd/" + kit.ToolName

// complete derives what was not given, and checks the rest.
func (c *newCollection) complete(folder string) error {
	if c.Name == "" {
		absolute, err := filepath.Abs(folder)
		if err != nil {
			return err
		}
		c.Name = strings.ToLower(filepath.Base(absolute))
		if !namePattern.MatchString(c.Name) {
			return fmt.Errorf("the folder's name %q cannot be the name of a collection: give one with --name", c.Name)
		}
	}
	for _, flag := range []struct{ name, value string }{{"domain", c.Domain}, {"name", c.Name}} {
		if !namePattern.MatchString(flag.value) {
			return fmt.Errorf("--%s %q: use lower-case letters, digits and -, beginning with a letter, such as zos-users", flag.name, flag.value)
		}
	}
	if len(c.Domain)+len(c.Name) > maxNames {
		return fmt.Errorf("domain %q and name %q are together longer than %d characters; give shorter ones with --domain and --name", c.Domain, c.Name, maxNames)
	}
	words := strings.FieldsFunc(c.Name, func(r rune) bool { return r == '-' || r == '_' })
	if c.Kind == "" {
		c.Kind = strings.Join(capitalized(words), "")
	}
	if !kindPattern.MatchString(c.Kind) || len(c.Kind) > maxKind {
		return fmt.Errorf("--kind %q: use Pascal case, at most %d letters and digits, such as ZosUser", c.Kind, maxKind)
	}
	if c.DisplayName == "" {
		c.DisplayName = strings.Join(capitalized(words), " ")
	}
	display, err := json.Marshal(c.DisplayName) // JSON is YAML.
	if err != nil {
		return err
	}
	c.DisplayName = string(display)
	c.Namespace, c.GalaxyName = strings.ReplaceAll(c.Domain, "-", "_"), strings.ReplaceAll(c.Name, "-", "_")
	c.Domain, c.Name = strings.ReplaceAll(c.Domain, "_", "-"), strings.ReplaceAll(c.Name, "_", "-")
	separate := separateWords(c.Kind)
	c.KindDisplayName = strings.Join(separate, " ")
	c.Tool = toolPackage + "@latest"
	if version := kit.ModuleVersion(); version != "" {
		c.Tool = toolPackage + "@v" + version
	}
	c.Playbook = strings.ToLower(strings.Join(separate, "_")) + ".yml"
	return nil
}

func capitalized(words []string) []string {
	out := make([]string, len(words))
	for i, word := range words {
		out[i] = strings.ToUpper(word[:1]) + word[1:]
	}
	return out
}

// separateWords divides a name in Pascal case before each capital that follows a small letter or a digit.
func separateWords(kind string) []string {
	var words []string
	start := 0
	for i := 1; i < len(kind); i++ {
		if unicode.IsUpper(rune(kind[i])) && !unicode.IsUpper(rune(kind[i-1])) {
			words = append(words, kind[start:i])
			start = i
		}
	}
	return append(words, kind[start:])
}

// newFile is one file of a new collection, by its path.
type newFile struct{ name, content string }

func (c *newCollection) files() ([]newFile, error) {
	var files []newFile
	for _, file := range []struct{ name, template string }{
		{".github/workflows/collection.yaml", "workflow.yaml"},
		{".gitignore", "gitignore"},
		{"README.md", "README.md"},
		{scenario.Dir + "/hello.yaml", "scenario.yaml"},
		{"galaxy.yml", "galaxy.yml"},
		{"meta/runtime.yml", "runtime.yml"},
		{"operator-config.yml", "operator-config.yml"},
		{"playbooks/" + c.Playbook, "kind.yml"},
	} {
		var content strings.Builder
		if err := scaffoldTemplates.ExecuteTemplate(&content, file.template, c); err != nil {
			return nil, err
		}
		files = append(files, newFile{file.name, content.String()})
	}
	return files, nil
}

// writeFiles writes the files into a folder, or none if one of them exists.
func writeFiles(folder string, files []newFile) error {
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return err
	}
	root, err := os.OpenRoot(folder)
	if err != nil {
		return err
	}
	defer root.Close()
	var taken []string
	for _, file := range files {
		if _, err := root.Lstat(file.name); err == nil {
			taken = append(taken, file.name)
		} else if !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	if len(taken) > 0 {
		return fmt.Errorf("%s already has %s: nothing was written; move them away or choose another folder", folder, strings.Join(taken, ", "))
	}
	for _, file := range files {
		if err := root.MkdirAll(path.Dir(file.name), 0o755); err != nil {
			return err
		}
		if err := writeNew(root, file); err != nil {
			return err
		}
	}
	return nil
}

func writeNew(root *os.Root, file newFile) error {
	f, err := root.OpenFile(file.name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	_, err = io.WriteString(f, file.content)
	return errors.Join(err, f.Close())
}

func printCreated(w io.Writer, folder string, files []newFile) error {
	for _, file := range files {
		if _, err := fmt.Fprintln(w, filepath.Join(folder, filepath.FromSlash(file.name))); err != nil {
			return err
		}
	}
	return nil
}

// schemas are the JSON Schemas by the name of what they are of.
var schemas = map[string]func() ([]byte, error){"operator-config": lint.ConfigSchema, "scenario": scenario.Schema}

func schemaCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "schema [operator-config|scenario]",
		Short: "Print the JSON Schema of operator-config.yml or of a scenario, for editors",
		Long: `Print the JSON Schema (draft 7) of operator-config.yml, or of a scenario of the command test. Editors use it to complete and
check keys and values. lint checks the rest.`,
		Example: `  # For the YAML language server, make this the first line of operator-config.yml
  #   # yaml-language-server: $schema=operator-config.schema.json
  kubectl collection schema > operator-config.schema.json

  # The same for scenarios
  kubectl collection schema scenario > scenario.schema.json`,
		Args:      cobra.MatchAll(cobra.MaximumNArgs(1), cobra.OnlyValidArgs),
		ValidArgs: []string{"operator-config", "scenario"},
		RunE: func(cmd *cobra.Command, args []string) error {
			schema, err := schemas[append(args, "operator-config")[0]]()
			if err != nil {
				return err
			}
			_, err = cmd.OutOrStdout().Write(schema)
			return err
		},
	}
}
