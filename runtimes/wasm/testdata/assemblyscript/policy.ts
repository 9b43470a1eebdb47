// A policy in AssemblyScript, without an SDK: ABI v1 is three functions.
// It denies bash, allows everything else, and echoes at operation 1024.

// @ts-ignore: decorator
@external("host_v1", "log")
declare function hostLog(level: u32, ptr: usize, len: u32): void;

const ADMIT: u32 = 16, DESCRIBE: u32 = 1, SELFTEST: u32 = 2, ECHO: u32 = 1024;

// One scratch buffer for the input; it grows and is never freed. Replies are
// constants or the input itself.
let input: usize = 0;
let room: u32 = 0;

export function abi_version(): u32 {
  return 1 << 16;
}

export function alloc(n: u32): usize {
  if (n > room) {
    input = heap.alloc(n);
    room = n;
  }
  return input;
}

export function handle(op: u32, ptr: usize, len: u32): u64 {
  switch (op) {
    case ECHO:
      return pack(ptr, len);
    case SELFTEST:
      return 0;
    case DESCRIBE:
      return text(DESCRIPTION);
    case ADMIT:
      // Payloads are canonical JSON: members have no space around them, and a quote
      // inside of a string is escaped, so this is found where it is a member only.
      if (!contains(ptr, len, BASH)) return text(ALLOW);
      hostLog(3, ptrOf(DENIED), sizeOf(DENIED));
      return text(DENY);
  }
  return text(UNSUPPORTED) | (<u64>1 << 31);
}

const DESCRIPTION = String.UTF8.encode('{"ops":["admit","describe","op 1024","selftest"],"sdk":"none"}');
const BASH = String.UTF8.encode('"language":"bash"');
const ALLOW = String.UTF8.encode('{"decision":"allow","limits":{"wall_ms":5000}}');
const DENY = String.UTF8.encode('{"code":"language_not_allowed","decision":"deny","reason":"bash is not allowed here"}');
const DENIED = String.UTF8.encode("denied bash");
const UNSUPPORTED = String.UTF8.encode('{"code":"unsupported_op","message":"this module does not serve that"}');

function ptrOf(b: ArrayBuffer): usize {
  return changetype<usize>(b);
}

function sizeOf(b: ArrayBuffer): u32 {
  return <u32>b.byteLength;
}

function pack(ptr: usize, len: u32): u64 {
  return (<u64>ptr << 32) | <u64>len;
}

function text(b: ArrayBuffer): u64 {
  return pack(ptrOf(b), sizeOf(b));
}

function contains(ptr: usize, len: u32, wanted: ArrayBuffer): bool {
  const n = sizeOf(wanted), w = ptrOf(wanted);
  for (let i: u32 = 0; i + n <= len; i++) {
    if (memory.compare(ptr + i, w, n) == 0) return true;
  }
  return false;
}
