// Package envd is the data plane of providers whose sandboxes run the envd daemon:
// everything of backend.Backend that happens inside a sandbox, over the gateway
// that leads to it. Plugins of such providers keep a Client for each open config
// and add the control plane.
//
// It makes, wakes and deletes no sandbox. Where an answer of the gateway could mean
// that a sandbox is paused or gone, it asks the plugin's Control, and only what that
// says is passed on as such: no answer of the data plane proves anything.
//
// What runs in a sandbox may be root there and do with its files what it likes,
// also between a check and its use. The sandbox is the boundary; within it, this
// package keeps honest programs from surprises, and makes sure that nothing a
// program does there is believed elsewhere.
package envd
