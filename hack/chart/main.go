// Command chart makes the Helm chart of Collection Operator from the manifests in config: `make generate` writes it to
// charts/collection-operator, and `make chart` packs it for a version. It reads the manager's help on standard input.
package main

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
)

// repositoryVersion is the version of the chart in the repository.
const repositoryVersion = "0.1.0"

// semantic matches the versions that Helm accepts.
var semantic = regexp.MustCompile(`^\d+\.\d+\.\d+(-[0-9A-Za-z.-]+)?(\+[0-9A-Za-z.-]+)?$`)

func main() {
	if err := makeChart(); err != nil {
		fmt.Fprintln(os.Stderr, "chart:", err)
		os.Exit(1)
	}
}

func makeChart() error {
	config := flag.String("config", "../../config", "folder of the manifests")
	output := flag.String("output", "", "folder in which the chart is written, as a folder that is replaced or, with -version, as an archive (required)")
	version := flag.String("version", "", "semantic version of the chart and the operator, without v; if not set, the chart is not packed")
	manager := flag.String("image", "", "default image of the manager")
	runtime := flag.String("runtime-image", "", "default image of operators")
	allowTags := flag.Bool("allow-tags", false, "accept images without digest with -version")
	flag.Parse()
	if *output == "" {
		return errors.New("-output is missing")
	}
	if *version != "" && !semantic.MatchString(*version) {
		return fmt.Errorf("version %q is not a semantic version such as 0.1.0", *version)
	}
	help, err := io.ReadAll(os.Stdin)
	if err != nil {
		return err
	}
	m, err := readManifests(*config)
	if err != nil {
		return err
	}
	o := options{version: repositoryVersion, images: images{manager: parseImage(*manager), runtime: parseImage(*runtime)}}
	if *version != "" {
		o.version = *version
		if err := o.images.check(*allowTags); err != nil {
			return err
		}
	}
	files, err := generate(m, string(help), o)
	if err != nil {
		return err
	}
	if *version == "" {
		return write(filepath.Join(*output, chartName), files)
	}
	return writeArchive(filepath.Join(*output, chartName+"-"+*version+".tgz"), files)
}

// write replaces a folder.
func write(folder string, files map[string][]byte) error {
	if err := os.RemoveAll(folder); err != nil {
		return err
	}
	for name, content := range files {
		target := filepath.Join(folder, name)
		if err := os.MkdirAll(filepath.Dir(target), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(target, content, 0o644); err != nil {
			return err
		}
	}
	return nil
}

func writeArchive(name string, files map[string][]byte) error {
	var archive bytes.Buffer
	if err := pack(&archive, files); err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		return err
	}
	if err := os.WriteFile(name, archive.Bytes(), 0o644); err != nil {
		return err
	}
	fmt.Println(name)
	return nil
}
