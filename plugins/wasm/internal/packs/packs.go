package packs

// Set is the result of Locate: which packs are there, verified, and which are
// not. It is immutable.
type Set struct{ _ struct{} }
