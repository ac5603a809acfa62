package main

import (
	"strings"
	"testing"

	"github.com/spf13/pflag"
)

func TestLeaseSettings(t *testing.T) {
	for name, tt := range map[string]struct {
		flags []string
		valid bool
	}{
		"default":                      {nil, true},
		"short":                        {[]string{"--leader-elect-lease-duration=4s", "--leader-elect-renew-deadline=3s", "--leader-elect-retry-period=1s"}, true},
		"a lease that ends too early":  {[]string{"--leader-elect-lease-duration=100s"}, false},
		"a deadline that is too early": {[]string{"--leader-elect-renew-deadline=6s"}, false},
		"no retry":                     {[]string{"--leader-elect-retry-period=0s"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			var s options
			flags := pflag.NewFlagSet("manager", pflag.ContinueOnError)
			s.addFlags(flags)
			if err := flags.Parse(append(tt.flags, "--runtime-image=x", "--artifact-url=http://x")); err != nil {
				t.Fatal(err)
			}
			if err := s.validate(); (err == nil) != tt.valid || err != nil && !strings.Contains(err.Error(), "--leader-elect-renew-deadline") {
				t.Errorf("got %v", err)
			}
		})
	}
}

func TestProfilingAddress(t *testing.T) {
	for address, valid := range map[string]bool{
		"": true, "127.0.0.1:6060": true, "[::1]:0": true,
		":6060": false, "0.0.0.0:6060": false, "localhost:6060": false, "10.0.0.1:6060": false, "127.0.0.1": false,
	} {
		if err := checkProfiling(address); (err == nil) != valid {
			t.Errorf("%q: got %v", address, err)
		}
	}
}
