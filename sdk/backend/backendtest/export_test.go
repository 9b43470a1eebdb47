package backendtest

// Wired puts the wire between host and backend.
var Wired = wired
