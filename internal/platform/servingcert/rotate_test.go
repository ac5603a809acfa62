package servingcert

import (
	"crypto/x509"
	"slices"
	"strings"
	"testing"
	"time"
)

const day = 24 * time.Hour

var settings = Settings{
	Names: []string{"archives.example.svc", "192.0.2.1"}, AuthorityValidity: 730 * day, CertificateValidity: 90 * day, Overlap: time.Hour,
}

var start = time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)

func rotate(t *testing.T, s *State, at time.Time, settings Settings) string {
	t.Helper()
	changes, err := s.Rotate(at, settings)
	if err != nil {
		t.Fatal(err)
	}
	if again, err := s.Rotate(at, settings); err != nil || len(again) > 0 {
		t.Errorf("at the same time it did more: %v, %v", again, err)
	}
	verify(t, s, s.Pool(), at)
	return strings.Join(changes, ", ")
}

// verify fails if a client that trusts a bundle would refuse the served certificate.
func verify(t *testing.T, s *State, pool *x509.CertPool, at time.Time) {
	t.Helper()
	for _, name := range settings.Names {
		if _, err := s.certificate.certificate.Verify(x509.VerifyOptions{DNSName: name, Roots: pool, CurrentTime: at}); err != nil {
			t.Errorf("%s, for %s: %v", at, name, err)
		}
	}
}

func TestRotate(t *testing.T) {
	const (
		created  = "created a CA, issued a certificate"
		renewed  = "issued a certificate"
		added    = "added the next CA to the bundle"
		promoted = "the next CA signs certificates, issued a certificate"
		dropped  = "the former CA is not trusted any more"
	)
	caRenewal := 730*day - time.Hour
	caRenewal = caRenewal * 2 / 3
	type step struct {
		after time.Duration
		want  string
		// authorities in the bundle.
		authorities int
	}
	for name, steps := range map[string][]step{
		"a certificate is renewed after 60 days": {{0, created, 1}, {60*day - time.Second, "", 1}, {60 * day, renewed, 1}, {61 * day, "", 1}},
		"a CA is replaced with an overlap": {
			{0, created, 1},
			{caRenewal - 10*day, renewed, 1},
			{caRenewal - time.Second, "", 1},
			{caRenewal, added, 2},
			{caRenewal + time.Hour - time.Second, "", 2},
			{caRenewal + time.Hour, promoted, 2},
			{caRenewal + 61*day, renewed, 2},
			{caRenewal + 80*day - time.Second, "", 2},
			{caRenewal + 80*day, dropped, 1},
		},
		"no manager ran when a certificate expired": {{0, created, 1}, {200 * day, renewed, 1}},
		"no manager ran when a CA was due":          {{0, created, 1}, {600 * day, added + ", " + renewed, 2}, {601 * day, promoted, 2}},
		"no manager ran when a CA expired":          {{0, created, 1}, {731 * day, created, 1}},
		"no manager ran when the next CA was due": {
			{0, created, 1}, {caRenewal, added + ", " + renewed, 2}, {caRenewal + 700*day, "the next CA was too old, created a CA, issued a certificate", 1},
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := &State{}
			for _, step := range steps {
				if got := rotate(t, s, start.Add(step.after), settings); got != step.want || len(s.authorities()) != step.authorities {
					t.Errorf("after %s: got %q and %d CAs, want %q and %d", step.after, got, len(s.authorities()), step.want, step.authorities)
				}
			}
		})
	}
}

// At any time, a client that got the bundle up to an overlap ago trusts the certificate.
func TestClientsWithAnOldBundleTrustTheCertificate(t *testing.T) {
	s, short := &State{}, Settings{Names: settings.Names, AuthorityValidity: 40 * day, CertificateValidity: 9 * day, Overlap: 2 * day}
	var earlier []*x509.CertPool
	authorities := map[string]bool{}
	for at := start; at.Before(start.Add(1000 * day)); at = at.Add(12 * time.Hour) {
		rotate(t, s, at, short)
		authorities[s.authority.certificate.SerialNumber.String()] = true
		earlier = append(earlier, s.Pool())
		if len(earlier) > 4 {
			earlier = earlier[1:]
		}
		verify(t, s, earlier[0], at)
	}
	if len(authorities) < 20 {
		t.Errorf("only %d CAs", len(authorities))
	}
}

func TestChangedNames(t *testing.T) {
	s := &State{}
	rotate(t, s, start, settings)
	changed := settings
	changed.Names = append(slices.Clone(settings.Names), "other.example")
	if got := rotate(t, s, start.Add(time.Hour), changed); got != "issued a certificate" {
		t.Errorf("got %q", got)
	}
}

func TestParse(t *testing.T) {
	s := &State{}
	rotate(t, s, start, settings)
	rotate(t, s, start.Add(500*day), settings)
	rotate(t, s, start.Add(501*day), settings)
	again, err := Parse(s.Data())
	if err != nil {
		t.Fatal(err)
	}
	if string(again.Bundle()) != string(s.Bundle()) || !again.Expires().Equal(s.Expires()) || !again.formerUntil.Equal(s.formerUntil) {
		t.Error("the state differs after it was stored")
	}
	if got := rotate(t, again, start.Add(501*day), settings); got != "" {
		t.Errorf("after a restart: %s", got)
	}
	other := &State{}
	rotate(t, other, start, settings)
	for name, change := range map[string]func(map[string][]byte){
		"no CA":             func(d map[string][]byte) { delete(d, KeyAuthority); delete(d, KeyAuthorityKey) },
		"no key":            func(d map[string][]byte) { delete(d, KeyAuthorityKey) },
		"the key of others": func(d map[string][]byte) { d[KeyAuthorityKey] = other.Data()[KeyAuthorityKey] },
		"no certificate":    func(d map[string][]byte) { delete(d, KeyCertificate) },
		"a broken one":      func(d map[string][]byte) { d[KeyCertificate] = []byte("x") },
		"a broken key":      func(d map[string][]byte) { d[KeyCertificateKey] = []byte("x") },
		"no time":           func(d map[string][]byte) { d[KeyFormerUntil] = nil },
		"a broken former":   func(d map[string][]byte) { d[KeyFormer] = []byte("x") },
	} {
		data := s.Data()
		change(data)
		if _, err := Parse(data); err == nil || strings.Contains(err.Error(), "PRIVATE KEY") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestNames(t *testing.T) {
	got := NamesOf("archives.system.svc", []string{"192.0.2.1", "2001:DB8::1"})
	if want := []string{"192.0.2.1", "2001:db8::1", "archives.system.svc", "archives.system.svc.cluster.local"}; !slices.Equal(got, want) {
		t.Errorf("got %v", got)
	}
	for name, valid := range map[string]bool{
		"archives.example": true, "192.0.2.1": true, "2001:db8::1": true, "": false, "a b": false, "https://x": false, "*.example": false, "x..y": false,
	} {
		if (CheckName(name) == nil) != valid {
			t.Errorf("%q: valid is not %v", name, valid)
		}
	}
}
