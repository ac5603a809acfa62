package settings

import (
	"errors"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/collection-operator/collection-operator/api/v2beta1"
)

// options are flags of each sort.
type options struct {
	flags    *pflag.FlagSet
	timeout  time.Duration
	domains  []string
	prefixes []string
}

func newOptions() *options {
	o := &options{flags: pflag.NewFlagSet("manager", pflag.ContinueOnError)}
	o.flags.DurationVar(&o.timeout, "fetch-timeout", time.Minute, "")
	o.flags.StringSliceVar(&o.domains, "reserved-domains", nil, "")
	o.flags.Func("prefixes", "", func(text string) error {
		if strings.Contains(text, " ") || !strings.HasPrefix(text, "https://") {
			return errors.New("not an https URL")
		}
		o.prefixes = append(o.prefixes, text)
		return nil
	})
	o.flags.String("runtime-image", "", "")
	o.flags.String("galaxy-url", "", "")
	o.flags.String("storage-dir", "", "")
	return o
}

func TestFromData(t *testing.T) {
	for name, test := range map[string]struct {
		data map[string]string
		want map[string][]string
		// problems are in the error.
		problems, warnings []string
	}{
		"nothing":          {},
		"values":           {data: map[string]string{"fetch-timeout": "7s", "runtime-image": "x"}, want: map[string][]string{"fetch-timeout": {"7s"}, "runtime-image": {"x"}}},
		"a list":           {data: map[string]string{"prefixes": "https://a/,\n https://b/ "}, want: map[string][]string{"prefixes": {"https://a/", "https://b/"}}},
		"an empty list":    {data: map[string]string{"prefixes": ""}, want: map[string][]string{"prefixes": {}}},
		"an empty value":   {data: map[string]string{"galaxy-url": ""}, want: map[string][]string{"galaxy-url": {""}}},
		"former keys":      {data: map[string]string{"runtimeImage": "x", "COLLECTION_OPERATOR_FETCH_TIMEOUT": "7s"}, want: map[string][]string{"runtime-image": {"x"}, "variable fetch-timeout": {"7s"}}},
		"a former and new": {data: map[string]string{"runtimeImage": "x", "runtime-image": "y"}, want: map[string][]string{"runtime-image": {"y"}}},
		"an empty former":  {data: map[string]string{"COLLECTION_OPERATOR_FETCH_TIMEOUT": ""}},
		"an old and new": {
			data: map[string]string{"COLLECTION_OPERATOR_FETCH_TIMEOUT": "7s", "fetch-timeout": "8s"}, want: map[string][]string{"fetch-timeout": {"8s"}},
		},
		"foreign variables": {
			data: map[string]string{"GOMEMLIMIT": "1GiB", "TZ": "", "COLLECTION_OPERATOR_X": "1", "COLLECTION_OPERATOR_STORAGE_DIR": "/x", "galaxyURL": ""},
			warnings: []string{
				"key COLLECTION_OPERATOR_STORAGE_DIR has no effect: it is no setting; remove it", "key COLLECTION_OPERATOR_X has no effect: it is no setting; remove it",
				"key GOMEMLIMIT has no effect: it is no setting; remove it", "key TZ has no effect: it is no setting; remove it",
			},
		},
		"passwords": {
			data: map[string]string{
				"galaxyURL": "https://u:secret@galaxy", "prefixes": "https://a/,https://u:secret@b/", "COLLECTION_OPERATOR_PREFIXES": "https://u:secret%zz@b/",
				"HTTPS_PROXY": "u:secret@proxy:3128", "http_proxy": "http://u:secret@proxy", "runtime-image": "registry:5000/x:1@sha256:abc",
			},
			want: map[string][]string{"runtime-image": {"registry:5000/x:1@sha256:abc"}},
			problems: []string{
				"key galaxyURL: the URL has a password", "key prefixes: the URL has a password", "key COLLECTION_OPERATOR_PREFIXES: the URL has a password",
				"key HTTPS_PROXY: the URL has a password", "key http_proxy: the URL has a password",
			},
		},
		"all problems": {
			data: map[string]string{"fetch-timeuot": "7s", "storage-dir": "/x", "galaxy-url": "https://u:secret@galaxy", "runtime-image": "x"},
			want: map[string][]string{"runtime-image": {"x"}},
			problems: []string{
				"key fetch-timeuot: there is no such setting",
				"key galaxy-url: the URL has a password", "key storage-dir: it cannot be changed while the manager runs",
			},
		},
		"too much": {data: map[string]string{"runtime-image": strings.Repeat("x", maxBytes)}, problems: []string{"at most 262144 are allowed"}},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := FromData(newOptions().flags, test.data, []string{"storage-dir"})
			for _, problem := range test.problems {
				if err == nil || !strings.Contains(err.Error(), problem) {
					t.Errorf("want %s, got %v", problem, err)
				}
			}
			if err != nil && (len(test.problems) == 0 || strings.Contains(err.Error(), "secret")) {
				t.Error(err)
			}
			texts := map[string][]string{}
			for flag, value := range got.Flags {
				texts[flag] = value.Texts
			}
			for flag, value := range got.Variables {
				if _, isSet := texts[flag]; !isSet {
					texts["variable "+flag] = value.Texts
				}
			}
			if diff := cmp.Diff(test.warnings, got.Warnings); diff != "" {
				t.Error(diff)
			}
			if test.want == nil {
				test.want = map[string][]string{}
			}
			if diff := cmp.Diff(test.want, texts); diff != "" && name != "too much" {
				t.Error(diff)
			}
		})
	}
}

func TestProxyVariablesAreNoFlags(t *testing.T) {
	data := map[string]string{"HTTPS_PROXY": "http://proxy:3128", "no_proxy": ".example.com"}
	got, err := FromData(newOptions().flags, data, nil)
	if err != nil || len(got.Flags) > 0 || !maps.Equal(got.Environment, data) {
		t.Errorf("got %v, %v", got, err)
	}
}

func TestALaterSourceReplacesAnEarlierOne(t *testing.T) {
	o := newOptions()
	environment := FromEnvironment(o.flags, func(name string) (string, bool) {
		value, ok := map[string]string{"COLLECTION_OPERATOR_FETCH_TIMEOUT": "1s", "COLLECTION_OPERATOR_RESERVED_DOMAINS": "env"}[name]
		return value, ok
	})
	arguments, err := FromArguments(o.flags, []string{"--fetch-timeout=2s", "--prefixes=https://a/", "--prefixes", "https://b/", "--fetch-timeout", "3s"})
	if err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		data     map[string]string
		timeout  time.Duration
		prefixes []string
	}{
		"the command line":        {timeout: 3 * time.Second, prefixes: []string{"https://a/", "https://b/"}},
		"the ConfigMap":           {data: map[string]string{"fetch-timeout": "4s", "prefixes": "https://c/"}, timeout: 4 * time.Second, prefixes: []string{"https://c/"}},
		"no values in the latter": {data: map[string]string{"prefixes": ""}, timeout: 3 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			o := newOptions()
			config, err := FromData(o.flags, test.data, nil)
			merged := Merge(environment, arguments, config.Flags)
			if err := errors.Join(err, merged.Set(o.flags)); err != nil {
				t.Fatal(err)
			}
			if o.timeout != test.timeout || !cmp.Equal(o.prefixes, test.prefixes) || !cmp.Equal(o.domains, []string{"env"}) {
				t.Errorf("got %s, %v, %v", o.timeout, o.prefixes, o.domains)
			}
			if same := merged.Equal(Merge(environment, arguments)); same != (test.data == nil) {
				t.Errorf("it is the same: %t", same)
			}
		})
	}
}

func TestWrongValuesAreNamed(t *testing.T) {
	o := newOptions()
	config, _ := FromData(o.flags, map[string]string{"fetch-timeout": "soon", "prefixes": "https://a/ nowhere"}, nil)
	config.Flags["reserved"] = Value{Origin: "key reserved", Texts: []string{"https://u:secret@x"}}
	err := config.Flags.Set(o.flags)
	if err == nil || strings.Contains(err.Error(), "secret") {
		t.Errorf("it shows a password: %v", err)
	}
	for _, want := range []string{`key fetch-timeout: invalid argument "soon"`, `key prefixes: invalid argument "nowhere"`} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want %s, got %v", want, err)
		}
	}
}

func TestStatus(t *testing.T) {
	for name, status := range map[string]Status{
		"never used": {Problem: errors.New("key x: wrong\nkey y: wrong"), Observed: "7", Waiting: true},
		"waits":      {Problem: errors.New("key x: wrong"), Waiting: true, InUse: map[string]string{"fetch-timeout": "7s"}},
		"none used":  {InUse: map[string]string{}},
		"used":       {Observed: "8", InUse: map[string]string{"fetch-timeout": "7s"}},
	} {
		t.Run(name, func(t *testing.T) {
			data, err := status.Data()
			if err != nil {
				t.Fatal(err)
			}
			got, err := ParseStatus(data)
			if err != nil || got.Message() != status.Message() || got.Observed != status.Observed || got.Waiting != status.Waiting || !cmp.Equal(got.InUse, status.InUse) {
				t.Errorf("got %+v, %v of %v", got, err, data)
			}
		})
	}
	if got, err := ParseStatus(nil); err != nil || got.Problem != nil || got.InUse != nil {
		t.Errorf("without data: %+v, %v", got, err)
	}
	for _, text := range []string{"{", `{"a":"b","c":1}`} {
		if got, err := ParseStatus(map[string]string{KeyInUse: text}); err == nil || got.InUse != nil {
			t.Errorf("%s: got %v, %v", text, got.InUse, err)
		}
	}
}

func FuzzFromData(f *testing.F) {
	f.Add("fetch-timeout", "7s")
	f.Add("COLLECTION_OPERATOR_PREFIXES", "https://a/, https://u:p@b/")
	f.Fuzz(func(t *testing.T, key, text string) {
		o := newOptions()
		config, err := FromData(o.flags, map[string]string{key: text}, []string{"storage-dir"})
		for name := range config.Flags {
			if err != nil || o.flags.Lookup(name) == nil || name == "storage-dir" {
				t.Errorf("%s is set by %q, %v", name, key, err)
			}
		}
		_ = config.Flags.Set(o.flags)
		status := Status{Problem: err, InUse: map[string]string{key: text}}
		data, err := status.Data()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := ParseStatus(data); err != nil {
			t.Error(err)
		}
	})
}

func TestFromBroker(t *testing.T) {
	for name, test := range map[string]struct {
		spec v2beta1.ZosCloudBrokerSpec
		want map[string]string
		// ignored are fields without effect.
		ignored []string
	}{
		"nothing":   {spec: v2beta1.ZosCloudBrokerSpec{License: &v2beta1.License{Accept: true}}, want: map[string]string{}},
		"a level":   {spec: v2beta1.ZosCloudBrokerSpec{LogLevel: "DEBUG"}, want: map[string]string{"zap-log-level": "debug"}},
		"a warning": {spec: v2beta1.ZosCloudBrokerSpec{LogLevel: "WARN"}, want: map[string]string{"zap-log-level": "info"}},
		"a trace":   {spec: v2beta1.ZosCloudBrokerSpec{LogLevel: "trace"}, want: map[string]string{"zap-log-level": "debug"}},
		"another level": {
			spec: v2beta1.ZosCloudBrokerSpec{LogLevel: "loud"}, want: map[string]string{},
			ignored: []string{"spec.logLevel, which is none of trace, debug, info, warn and error"},
		},
		"all namespaces":    {spec: v2beta1.ZosCloudBrokerSpec{MultiNamespace: new(true)}, want: map[string]string{"namespaces": ""}},
		"its own namespace": {spec: v2beta1.ZosCloudBrokerSpec{MultiNamespace: new(false)}, want: map[string]string{"namespaces": "home"}},
		"a server": {
			spec: v2beta1.ZosCloudBrokerSpec{GalaxyConfig: &v2beta1.GalaxyConfig{GalaxyURL: "https://hub"}}, want: map[string]string{"galaxy-url": "https://hub"},
		},
		"a server that is switched off": {
			spec: v2beta1.ZosCloudBrokerSpec{GalaxyConfig: &v2beta1.GalaxyConfig{Enabled: new(false), GalaxyURL: "https://hub"}}, want: map[string]string{},
		},
		"what the workload has": {
			spec: v2beta1.ZosCloudBrokerSpec{Storage: &runtime.RawExtension{}, Resources: &runtime.RawExtension{}}, want: map[string]string{},
			ignored: []string{"spec.storage, which the workload of the manager has", "spec.resources, which the workload of the manager has"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(test.want, FromBroker(&test.spec, "home")); diff != "" {
				t.Error(diff)
			}
			if diff := cmp.Diff(test.ignored, Ignored(&test.spec)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestOverlay(t *testing.T) {
	under := map[string]string{"galaxy-url": "a", "zap-log-level": "info", "namespaces": "home"}
	got := Overlay(under, map[string]string{"galaxyURL": "b", "COLLECTION_OPERATOR_NAMESPACES": "", "zap-log-level": "debug", "fetch-timeout": "1s"})
	want := map[string]string{"galaxyURL": "b", "COLLECTION_OPERATOR_NAMESPACES": "", "zap-log-level": "debug", "fetch-timeout": "1s", "namespaces": "home"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if len(under) != 3 || Overlay(nil, nil) == nil {
		t.Error("it changes its arguments, or returns nil")
	}
}
