package servingcert

import (
	"slices"
	"time"
)

// Rotate does what is due at a time, and returns what it did, for the log. It returns nothing if nothing is due. A State
// without a CA, or with one that has expired, gets a new CA that signs at once.
func (s *State) Rotate(now time.Time, settings Settings) (changes []string, err error) {
	for _, step := range []func(time.Time, Settings) (string, error){
		s.dropFormer, s.dropNext, s.ensureAuthority, s.promoteNext, s.addNext, s.renewCertificate,
	} {
		change, err := step(now, settings)
		if err != nil {
			return nil, err
		}
		if change != "" {
			changes = append(changes, change)
		}
	}
	return changes, nil
}

func (s *State) dropFormer(now time.Time, _ Settings) (string, error) {
	if s.former == nil || now.Before(s.formerUntil) && now.Before(s.former.NotAfter) {
		return "", nil
	}
	s.former, s.formerUntil = nil, time.Time{}
	return "the former CA is not trusted any more", nil
}

// dropNext drops a next CA that could not sign in its time, since no manager ran.
func (s *State) dropNext(now time.Time, settings Settings) (string, error) {
	if s.next == nil || now.Before(s.next.renewal(settings)) {
		return "", nil
	}
	s.next = nil
	return "the next CA was too old", nil
}

func (s *State) ensureAuthority(now time.Time, settings Settings) (string, error) {
	if s.authority != nil && now.Before(s.authority.certificate.NotAfter) {
		return "", nil
	}
	authority, err := newAuthority(now, settings.AuthorityValidity)
	if err != nil {
		return "", err
	}
	s.authority = authority
	return "created a CA", nil
}

// promoteNext lets the next CA sign once all clients had the time to get the bundle with it.
func (s *State) promoteNext(now time.Time, settings Settings) (string, error) {
	if s.next == nil || now.Before(s.next.created().Add(settings.Overlap)) {
		return "", nil
	}
	s.former, s.formerUntil = s.authority.certificate, now
	if s.certificate != nil {
		s.formerUntil = s.certificate.certificate.NotAfter
	}
	s.authority, s.next = s.next, nil
	return "the next CA signs certificates", nil
}

func (s *State) addNext(now time.Time, settings Settings) (string, error) {
	if s.next != nil || now.Before(s.authority.renewal(settings)) {
		return "", nil
	}
	next, err := newAuthority(now, settings.AuthorityValidity)
	if err != nil {
		return "", err
	}
	s.next = next
	return "added the next CA to the bundle", nil
}

func (s *State) renewCertificate(now time.Time, settings Settings) (string, error) {
	names := slices.Sorted(slices.Values(settings.Names))
	if c := s.certificate; c != nil && c.signedBy(s.authority) && slices.Equal(c.names(), names) && now.Before(c.renewal(settings)) {
		return "", nil
	}
	certificate, err := s.authority.sign(now, settings.CertificateValidity, names)
	if err != nil {
		return "", err
	}
	s.certificate = certificate
	return "issued a certificate", nil
}
