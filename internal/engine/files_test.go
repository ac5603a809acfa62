package engine

import (
	"io/fs"
	"os"
	"strings"
	"testing"
)

// What install.sh copies into the image is embedded, too.
func TestFilesHasAllThatIsInstalled(t *testing.T) {
	for _, folder := range []string{"vars_plugins", "callback_plugins", "python", "operator_sdk_util"} {
		err := fs.WalkDir(os.DirFS("."), folder, func(name string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() || strings.HasSuffix(name, ".pyc") || strings.HasSuffix(name, "README.md") {
				return err
			}
			if _, err := fs.Stat(Files, name); err != nil {
				t.Errorf("%s is installed in the image, and not embedded", name)
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}
