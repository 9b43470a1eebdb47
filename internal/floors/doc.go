// Package floors holds the tests that keep the architecture: which package may
// import which, where third-party libraries may be used, and that nothing above
// sdk/backend knows a backend by name. It has no code of its own.
package floors
