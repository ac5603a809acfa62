// Package settings decides which value each flag of the manager has: that of a ConfigMap, which takes effect while the manager
// runs, that of the command line, or that of an environment variable. It is pure.
package settings

import (
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"unicode"

	"github.com/spf13/pflag"
)

// VariablePrefix begins the name of the environment variable of each flag.
const VariablePrefix = "COLLECTION_OPERATOR_"

// Variable returns the environment variable of a flag, such as COLLECTION_OPERATOR_FETCH_TIMEOUT for fetch-timeout.
func Variable(flag string) string {
	return VariablePrefix + strings.ToUpper(strings.ReplaceAll(flag, "-", "_"))
}

// Value is what one source says about a flag.
type Value struct {
	// Origin names the source in messages, such as environment variable COLLECTION_OPERATOR_FETCH_TIMEOUT.
	Origin string
	// Texts are the values in their order: one, or any number for a flag that may be repeated.
	Texts []string
}

// Values are those of flags, by the names of the flags.
type Values map[string]Value

// FromArguments returns the values on a command line.
func FromArguments(flags *pflag.FlagSet, arguments []string) (Values, error) {
	values := Values{}
	err := flags.ParseAll(arguments, func(flag *pflag.Flag, text string) error {
		of := values[flag.Name]
		of.Origin = "--" + flag.Name
		if !Repeats(flag) {
			of.Texts = nil
		}
		of.Texts = append(of.Texts, text)
		values[flag.Name] = of
		return nil
	})
	return values, err
}

// FromEnvironment returns the values of environment variables. An empty variable counts as not set.
func FromEnvironment(flags *pflag.FlagSet, lookup func(string) (string, bool)) Values {
	values := Values{}
	flags.VisitAll(func(flag *pflag.Flag) {
		variable := Variable(flag.Name)
		if text, _ := lookup(variable); text != "" {
			values[flag.Name] = Value{Origin: "environment variable " + variable, Texts: split(flag, text)}
		}
	})
	return values
}

// split returns the values in a text: for a flag that may be repeated, a list separated by commas or white space.
func split(flag *pflag.Flag, text string) []string {
	if !Repeats(flag) {
		return []string{text}
	}
	return strings.FieldsFunc(text, func(r rune) bool { return r == ',' || unicode.IsSpace(r) })
}

// Repeats reports whether a flag may be repeated.
func Repeats(flag *pflag.Flag) bool {
	_, isSlice := flag.Value.(pflag.SliceValue)
	return isSlice || flag.Value.Type() == "func"
}

// Merge returns the values of all sources. The value of a later source replaces that of an earlier one, also of a flag that may be
// repeated.
func Merge(sources ...Values) Values {
	merged := Values{}
	for _, source := range sources {
		maps.Copy(merged, source)
	}
	return merged
}

// Equal reports whether flags get the same values, wherever these come from.
func (v Values) Equal(other Values) bool {
	return maps.EqualFunc(v, other, func(a, b Value) bool { return slices.Equal(a.Texts, b.Texts) })
}

// Set sets flags, in the order of their names. The error has all problems.
func (v Values) Set(flags *pflag.FlagSet) error {
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(v)) {
		for _, text := range v[name].Texts {
			err := flags.Set(name, text)
			if err != nil && hasPassword(text) {
				err = errors.New("the value cannot be read, and is not shown because it has a password")
			}
			if err != nil {
				errs = append(errs, fmt.Errorf("%s: %w", v[name].Origin, err))
				break
			}
		}
	}
	return errors.Join(errs...)
}

// password matches a URL with a password, also in a list or another text.
var password = regexp.MustCompile(`//[^/\s]*:[^/\s]*@`)

func hasPassword(text string) bool { return password.MatchString(text) }
