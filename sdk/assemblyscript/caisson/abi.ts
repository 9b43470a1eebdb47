// The guest side of WASM ABI v1, for modules written in AssemblyScript. An entry file
// re-exports the three functions at the end and registers what it serves at its top
// level:
//
//	export { abi_version, alloc, handle } from "./caisson/abi";
//
// A throw traps: the host discards the instance and treats the call as failed.

import { Reader, quote } from "./json";

// Operations, as in docs/plugin-authors.md.
export const DESCRIBE: u32 = 1, SELFTEST: u32 = 2, CONFIGURE: u32 = 3, ADMIT: u32 = 16, RESULT: u32 = 17;
export const LIST: u32 = 32, PLAN: u32 = 33, PRIVATE: u32 = 1024;

/** A handler's answer: JSON text, or a failure by a code of lower-case letters, digits and underscores. */
export class Reply {
  constructor(readonly text: string, readonly code: string = "") {}
}

/** What a module answers: JSON that its author wrote. */
export function ok(text: string): Reply {
  return new Reply(text);
}

/** What a module answers when it cannot. */
export function failure(code: string, message: string): Reply {
  return new Reply(message, code);
}

/** Answers one operation. `input` is valid during the call only. */
export type Handler = (input: Reader) => Reply;

const handlers = new Map<u32, Handler>();

/** Makes `handler` answer an operation; a second one for the same replaces it. */
export function on(op: u32, handler: Handler): void {
  handlers.set(op, handler);
}

/** Calls `configure` with the operator's configuration, once and before anything else. It returns what is wrong with it, or "". */
export function onConfigure(configure: (config: Reader) => string): void {
  configured = configure;
  on(CONFIGURE, (input: Reader): Reply => {
    const wrong = configured!(input);
    if (wrong.length > 0) return failure("bad_config", wrong);
    return input.finished() ? ok("") : failure("bad_config", "the configuration is not what was expected");
  });
}

let configured: ((config: Reader) => string) | null = null;

// Buffers of the boundary. Input is outside of what is collected, and the reply is
// kept until the next call by being here.
let input: usize = 0;
let room: u32 = 0;
let reply: ArrayBuffer = new ArrayBuffer(0);

export function abi_version(): u32 {
  return 1 << 16;
}

export function alloc(n: u32): usize {
  if (n > room || (room > 1 << 20 && n <= 1 << 20)) {
    if (input) heap.free(input);
    input = heap.alloc(n);
    room = n;
  }
  return input;
}

export function handle(op: u32, ptr: usize, len: u32): u64 {
  if (len > 0 && (ptr != input || len > room)) return refuse("bad_input", "input is not where alloc put it");
  if (handlers.has(op)) {
    const answer = handlers.get(op)(new Reader(ptr, len));
    return answer.code.length > 0 ? refuse(answer.code, answer.text) : send(answer.text);
  }
  if (op == SELFTEST) return 0;
  if (op == DESCRIBE) return send(describe());
  return refuse("unsupported_op", "this module does not serve operation " + op.toString());
}

function describe(): string {
  const ops = handlers.keys().sort();
  let list = "";
  for (let i = 0; i < ops.length; i++) list += (i > 0 ? "," : "") + ops[i].toString();
  return '{"operations":[' + list + '],"sdk":"assemblyscript"}';
}

function send(text: string): u64 {
  if (text.length == 0) return 0;
  reply = String.UTF8.encode(text, false, String.UTF8.ErrorMode.REPLACE);
  return (<u64>changetype<usize>(reply) << 32) | reply.byteLength;
}

function refuse(code: string, message: string): u64 {
  return send('{"code":' + quote(code) + ',"message":' + quote(message.substring(0, 300)) + "}") | (<u64>1 << 31);
}
