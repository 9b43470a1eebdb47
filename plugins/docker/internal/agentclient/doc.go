// Package agentclient is the plugin's side of the resident agent, the program of
// plugins/docker/agent: it carries out what sdk/backend asks of a sandbox over one
// multiplexed connection instead of one exec of the engine for each.
//
// # How the plugin brings an agent into a container
//
// The container is created with the user 0:0, no-new-privileges, all capabilities
// dropped and Capabilities added. Its main process may be anything that stays, for
// instance "AGENT hold" where the image has nothing; with an init as process 1
// (HostConfig.Init) nothing else has to reap.
//
//  1. Copy the agent's program (static, for the container's architecture) to
//     ProgramPath(build), where build is the lower-case hex SHA-256 of that file:
//     mode 0755, owner 0:0. It may be there already.
//  2. Start a hijacked exec, without TTY, as user 0:0, of RelayCommand(build). Its
//     stdin and the stdout part of its demultiplexed output are the connection. What
//     it says on stderr, bounded, explains why a connection never came about.
//  3. Open with a Dialer that does step 2.
//
// The relay finds the agent by its socket. Where none answers it starts one that
// outlives it. Where one of another build answers, and has nothing running, it is
// replaced; a busy one of the same protocol is used as it is (Client.Agent tells),
// a busy one of another protocol is ended with what it runs. The files of the session,
// its user ids and its groups stay. So the same three steps serve the first
// connection, a reconnection after the plugin was restarted, a reconnection after
// Connect restarted the container, an agent that died, and an upgrade.
//
// Where the plugin and the engine share a machine, and the operator allows it, the
// agent can listen on a second socket, in a directory that is bind-mounted: exec
// ListenCommand(build, path, uid) once, without attaching to it, then dial the socket
// from outside. uid is the plugin's own as the container sees it.
//
// # What the agent makes of the container
//
// DataDir gets the mode 2775 and the shared group, whoever owns it. Every run has a
// user id of its own out of 20000 to 59999; foreground runs of one session, which
// follow each other, have the same one. Programs have no capability, cannot get any,
// and see what Options.Env holds and what the request adds. Files that programs and
// the host make can be read and written by every later run: on disk the group has what
// the owner has, and modes are reported without that. What belongs to another user than
// a program's own, because a terminal or a detached run made it, it cannot chmod.
//
// The session's user id is chosen at random when the first agent starts, and stays: the
// kernel counts a user's processes in all containers of a machine together.
//
// Older releases of gVisor give the agent no orphans: what those used is not accounted.
//
// Everything that goes wrong is a *backend.Error of backend.PlaneData, which proves
// nothing about the sandbox; ErrLost is in its chain where the connection broke.
package agentclient
