package mustgather

import "testing"

func TestWithoutSecrets(t *testing.T) {
	for text, want := range map[string]string{
		"nothing: to hide, see https://example.com/a?": "nothing: to hide, see https://example.com/a?",
		// URLs and proxies
		"GET https://bob:Sup3r,se;cr)e]t}@example.com/x failed": "GET https://REDACTED@example.com/x failed",
		`GET "https://bob:it's"b@d@example.com/x"`:              `GET "https://REDACTED@example.com/x"`,
		"git+ssh://token@example.com/x":                         "git+ssh://REDACTED@example.com/x",
		`{"url":"https://h/x?a=1\u0026sig=s3cr3t"}`:             `{"url":"https://h/x?REDACTED"}`,
		`"GET \"https://h/x?sig='s3,cr)3t\": 403"`:              `"GET \"https://h/x?REDACTED\": 403"`,
		"https://h/x#access_token=s3cr3t https://h/x#section":   "https://h/x#access_token=REDACTED https://h/x#section",
		"oci://registry/files@sha256:0123":                      "oci://registry/files@sha256:0123",
		"oci://bob:pw@registry/files@sha256:0123":               "oci://REDACTED@registry/files@sha256:0123",
		"HTTPS_PROXY=bob:s3cr3t@proxy:3128":                     "HTTPS_PROXY=REDACTED@proxy:3128",
		"proxy bob:s3:c@r@proxy.example.com":                    "proxy REDACTED@proxy.example.com",
		"image registry:5000/files:1.0@sha256:12ab":             "image registry:5000/files:1.0@sha256:12ab",
		// quoted values
		`"password": "it's one", "a": "b"`:                   `"password": "REDACTED", "a": "b"`,
		`"password":"back\\slash\"quote","a":"b"`:            `"password":"REDACTED","a":"b"`,
		`{\"password\": \"it's \\\"one\\\"\", \"a\": \"b\"}`: `{\"password\": \"REDACTED\", \"a\": \"b\"}`,
		`{\\\"token\\\":\\\"a\\\\\\\"b\\\",\\\"c\\\":1}`:     `{\\\"token\\\":\\\"REDACTED\\\",\\\"c\\\":1}`,
		`{'db_password': 'it''s', 'a': 'b'}`:                 `{'db_password': 'REDACTED', 'a': 'b'}`,
		`{'db_password': "it's", 'a': 'b'}`:                  `{'db_password': "REDACTED", 'a': 'b'}`,
		`{"password":"","user":"shown"}`:                     `{"password":"","user":"shown"}`,
		`"passphrase": "cut off`:                             `"passphrase": "REDACTED`,
		"password: \"cut off\nshown":                         "password: \"REDACTED\nshown",
		"password: 'one' and pwd='two'\n":                    "password: 'REDACTED' and pwd='REDACTED'\n",
		// values without quotes
		"TSO_PASSWORD=correct horse battery\nshown": "TSO_PASSWORD=REDACTED\nshown",
		"pass: true blue": "pass: REDACTED",
		`{"password":true,"secret":false,"token":null,"a":1}`: `{"password":true,"secret":false,"token":null,"a":1}`,
		"automountServiceAccountToken: false":                 "automountServiceAccountToken: false",
		"token=s3cr3t' shown":                                 "token=REDACTED shown",
		`tokens: x, "token": ["a", "b"]`:                      `tokens: x, "token": REDACTED`,
		"aws_secret_access_key = a/b+c shown":                 "aws_secret_access_key = REDACTED shown",
		"secret_key: 12345 credential=abc api-key:abc":        "secret_key: REDACTED credential=REDACTED api-key:REDACTED",
		"client-secret=abc clientSecret: abc my_secret: abc":  "client-secret=REDACTED clientSecret: REDACTED my_secret: REDACTED",
		"credentialsSecret: download credentialName: logon":   "credentialsSecret: download credentialName: logon",
		"secret:\n  secretName: logon":                        "secret:\n  secretName: logon",
		// headers, tokens and keys
		"Authorization: Basic YTpiYw==\nauthorization: bearer abcdefg": "Authorization: Basic REDACTED\nauthorization: bearer REDACTED",
		"basic auth": "basic auth",
		"a eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2ln b":                   "a REDACTED b",
		"a\n-----BEGIN PRIVATE KEY-----\nx\n-----END PRIVATE KEY-----\nb": "a\n-----BEGIN PRIVATE KEY-----REDACTED-----END PRIVATE KEY-----\nb",
		"-----BEGIN RSA PRIVATE KEY-----\ncut off":                        "-----BEGIN RSA PRIVATE KEY-----REDACTED",
		"y\nz\n-----END PRIVATE KEY-----\nb":                              "REDACTED-----END PRIVATE KEY-----\nb",
		"y\n-----END PRIVATE KEY-----\n-----BEGIN PRIVATE KEY-----\nx":    "REDACTED-----END PRIVATE KEY-----\n-----BEGIN PRIVATE KEY-----REDACTED",
	} {
		if got := withoutSecrets(text); got != want {
			t.Errorf("%s\n becomes %s\ninstead of %s", text, got, want)
		}
		if again := withoutSecrets(want); again != want {
			t.Errorf("%s\n becomes %s", want, again)
		}
	}
}

// Texts may be anything.
func FuzzWithoutSecrets(f *testing.F) {
	for _, text := range []string{`"password": "a`, `token='\\\'`, "https://a:b@c?d", "x:y@z:80", "secret={", "-----END PRIVATE KEY-----"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if got := withoutSecrets(text); len(text) > 0 && got == "" {
			t.Errorf("%q becomes empty", text)
		}
	})
}
