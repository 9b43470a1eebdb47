// Package telemetry is what a host says about itself to those who operate it:
// Prometheus metrics in a registry of its own, OpenTelemetry spans, and the events of
// plugins. docs/observability.md lists them.
//
// Everything is bounded. A label takes its values from the configuration, from the
// routes, or from words of ours; never from what a caller wrote. Nothing here holds
// code, file names, credentials or the names of tenants.
//
// A nil *Telemetry is valid and measures nothing.
package telemetry
