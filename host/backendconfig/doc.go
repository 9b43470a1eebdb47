// Package backendconfig is about named configs of backends that people edit while
// sandboxes live: what a config lacks, whose sandboxes it reaches, and how to change
// or delete one without losing any.
//
// It knows no provider. A manifest's schema says which members are required, which are
// secrets (writeOnly) and which decide whose sandboxes a config reaches (the note
// x-identity); everything else is asked of the backend. The package stores no configs:
// whoever keeps them asks here before and while they change.
package backendconfig
