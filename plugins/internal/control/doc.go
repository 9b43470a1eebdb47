// Package control speaks to the control planes of remote microVM providers, which
// share one REST dialect: sandboxes, their listings, snapshots and templates as
// JSON over HTTPS. What the providers do differently is in their plugins; what is
// the same is here: authentication by headers, budgets, careful retries, paging, and
// the map from what servers answer to the ten neutral kinds.
//
// It knows no policy: it decides neither when a sandbox is woken nor what an error
// means for a binding, beyond saying truthfully what was answered. It is no client of
// the data plane, which package envd is.
package control
