// Package admission is host.Admission for the standalone server: shared service
// keys and bearer tokens of one issuer.
//
// It is not an identity provider: it issues nothing, keeps no users and reads
// no request body, query or path. Which tenant a request acts for follows from
// verified credentials alone; no header but Authorization and X-API-Key is read.
//
// # Who gets in
//
// A service key arrives in X-API-Key, or as user or password of Basic
// credentials; a token as Bearer credentials. Every credential that is present
// must verify, and must be there once:
//
//	key      bearer    answer
//	absent   absent    401
//	valid    absent    the deployment's own organisation, KeyID set
//	wrong    any       401
//	absent   valid     the token's organisation
//	valid    valid     the token's organisation, KeyID set
//	any      refused   401: falling back to the deployment's own organisation
//	                   would put one tenant's files into another's hands
//	any      no org    403
//	any      unknown   503: the issuer's keys cannot be fetched
//
// Where no issuer is configured, a token beside a valid key is passed over: all
// requests are of one organisation. Alone it is 401.
//
// With neither keys nor an issuer configured every request is answered 503.
// An empty header counts as a wrong credential, not as none: a client whose
// configuration lost its key should hear of it.
package admission
