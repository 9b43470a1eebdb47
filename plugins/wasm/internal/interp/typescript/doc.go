// Package typescript turns TypeScript and JSX into JavaScript. Types are
// removed, not checked.
//
// The compiler, esbuild, runs natively and reads what anybody sends. Some
// sources of a few kilobytes keep it busy for minutes or make it use gigabytes,
// and it cannot be interrupted. So it has processes of its own, started from
// the program that this package is linked into: they have a limit on memory,
// hold nothing worth having, and are killed when a transform takes too long.
package typescript
