// Functions of the host. Each has to be listed under "imports" in the manifest, and is
// imported only by a module that calls it.

// @ts-ignore: decorator
@external("host_v1", "log")
declare function hostLog(level: u32, ptr: usize, len: u32): void;

// @ts-ignore: decorator
@external("host_v1", "now_ms")
declare function hostNow(): i64;

// @ts-ignore: decorator
@external("host_v1", "rand")
declare function hostRand(ptr: usize, len: u32): void;

/** Levels of log messages. */
export const TRACE: u32 = 1, DEBUG: u32 = 2, INFO: u32 = 3, WARN: u32 = 4, ERROR: u32 = 5;

/** Sends one message to the host's log, which cuts long ones and limits their rate. Needs "log". */
export function log(level: u32, message: string): void {
  const text = String.UTF8.encode(message, false, String.UTF8.ErrorMode.REPLACE);
  hostLog(level, changetype<usize>(text), text.byteLength);
}

/** Milliseconds since 1970; constant in a module declared deterministic. Needs "now_ms". */
export function nowMs(): i64 {
  return hostNow();
}

/** n random bytes, at most 65536; zeros in a module declared deterministic. Needs "rand". */
export function rand(n: i32): Uint8Array {
  const out = new Uint8Array(n);
  hostRand(out.dataStart, <u32>n);
  return out;
}
