package gate

import (
	"encoding/json"
	"strconv"
)

// unsafeKey is how Ansible's JSON marks text that must not be evaluated as a template.
const unsafeKey = "__ansible_unsafe"

// MarkUnsafe marks all strings in a value as unsafe, as ansible-operator does: Ansible does not evaluate them as templates.
func MarkUnsafe(value any) any {
	switch value := value.(type) {
	case string:
		return map[string]any{unsafeKey: value}
	case []any:
		return each(value, MarkUnsafe)
	case map[string]any:
		return eachField(value, MarkUnsafe)
	}
	return value
}

// unmark is the inverse of MarkUnsafe. An object of a user that looks like a mark was marked itself, so only its content is
// unmarked.
func unmark(value any) any {
	switch value := value.(type) {
	case []any:
		return each(value, unmark)
	case map[string]any:
		if text, ok := value[unsafeKey].(string); ok && len(value) == 1 {
			return text
		}
		return eachField(value, unmark)
	}
	return value
}

// normalize returns a copy in which numbers of equal value are equal.
func normalize(value any) any {
	switch value := value.(type) {
	case []any:
		return each(value, normalize)
	case map[string]any:
		return eachField(value, normalize)
	case int:
		return number(strconv.Itoa(value))
	case int32:
		return number(strconv.FormatInt(int64(value), 10))
	case int64:
		return number(strconv.FormatInt(value, 10))
	case float64:
		return number(strconv.FormatFloat(value, 'g', -1, 64))
	case json.Number:
		return number(value.String())
	}
	return value
}

// number returns an integer with all its digits, and other numbers as encoding/json writes a float64.
func number(text string) json.Number {
	if n, err := strconv.ParseInt(text, 10, 64); err == nil {
		return json.Number(strconv.FormatInt(n, 10)) // Not the text: it may be -0.
	}
	f, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return json.Number(text)
	}
	if f == 0 {
		return "0"
	}
	short, err := json.Marshal(f)
	if err != nil {
		return json.Number(text)
	}
	return json.Number(short)
}

func each(list []any, change func(any) any) []any {
	out := make([]any, len(list))
	for i, item := range list {
		out[i] = change(item)
	}
	return out
}

func eachField(object map[string]any, change func(any) any) map[string]any {
	out := make(map[string]any, len(object))
	for name, value := range object {
		out[name] = change(value)
	}
	return out
}
