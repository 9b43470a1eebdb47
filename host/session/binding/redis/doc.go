// Package redis keeps sessions' bindings, locks and leases in Redis, for replicas
// that share sessions.
//
// It needs Redis 6.2 or later, alone, behind sentinels or as a cluster: every step is
// one script over keys of one hash tag. Bindings are hashes without expiry, one field
// per member; everything else expires by itself. Leases are measured by the server's
// clock.
//
// While a server cannot be reached, steps fail at once; within about a second of its
// return they work again.
//
// The server should keep an append-only file, or traffic tokens are lost when it
// restarts; everything else is found again. It must not evict keys
// (maxmemory-policy noeviction), or locks and bindings disappear while they count.
// A failover to a replica that lags may forget the newest of both. Fences and
// create-if-absent then still keep a lock that was forgotten from being used.
//
// Bindings hold bearer secrets: the server must be protected by TLS or a private
// network, and by a user of its own. The user needs these rights:
//
//	ACL SETUSER caisson on >PASSWORD resetkeys ~caisson:* resetchannels -@all
//	  +@connection +@hash +@sortedset +@scripting +eval +evalsha +exists +del +pexpire +pttl +scan
//	  +time +info +cluster|slots +cluster|shards +readonly
package redis
