// The policy of runtimes/wasm/testdata/guests/policy, with the SDK: it denies bash and
// shortens everything else. It also shows what it read, so that tests see all of it.
import { PRIVATE, Reply, failure, ok, on } from "../caisson/abi";
import { INFO, log, nowMs, rand } from "../caisson/host";
import { quote } from "../caisson/json";
import { File, Outcome, Reader, Remark, Request, Verdict, allow, deny, onConfigure, review, serve } from "../caisson/policy";

export { abi_version, alloc, handle } from "../caisson/abi";

let denied: string[] = [];

onConfigure((config: Reader): string => {
  config.object();
  for (let name = config.nextMember(true); name != null; name = config.nextMember(false)) {
    if (name != "denied") return name + ": unknown member";
    denied = config.strings();
  }
  return denied.includes("") ? "denied: want no empty words" : "";
});

serve((r: Request): Verdict => {
  if (r.language == "bash") {
    log(INFO, "denied bash");
    return deny("language_not_allowed", "bash is not allowed here");
  }
  if (denied.includes(r.language)) return deny("language_not_allowed", r.language + " is not allowed here");
  const v = allow();
  v.limits.wallMs = 5000;
  return v;
});

review((o: Outcome): Remark[] => {
  if (o.stop == "throw") throw new Error("a deep reason");
  return o.stdout.includes("AKIA") ? [new Remark("key_in_output", o.request.language + " wrote a key: \"" + o.stdout + "\"")] : [];
});

// The operation of echoes, and one that shows what was read.
on(PRIVATE, (input: Reader): Reply => {
  const text = input.string();
  return input.finished() ? ok(quote(text)) : failure("bad_input", "not a string");
});

on(PRIVATE + 1, (input: Reader): Reply => {
  const o = Outcome.read(input);
  if (!input.finished()) return failure("bad_input", "not an outcome");
  const r = o.request;
  const words = [r.org, r.user, r.via, r.session, r.language, r.toolchain, r.config, r.network, r.code, o.stop, o.signal, o.stdout, o.stderr]
    .concat(r.args).concat(names(r.files)).concat(names(o.changed));
  const numbers = [
    r.limits.wallMs, r.limits.cpuMs, r.limits.memoryBytes, r.limits.processes, r.limits.stdoutBytes, r.limits.stderrBytes, r.limits.changedFiles,
    r.limits.changedFileBytes, r.codeBytes, o.exitCode, o.wallMs, o.cpuMs, o.peakMemoryBytes, o.stdoutBytes, o.stderrBytes,
  ];
  let text = "[";
  for (let i = 0; i < words.length; i++) text += quote(words[i]) + ",";
  for (let i = 0; i < numbers.length; i++) text += numbers[i].toString() + (i < numbers.length - 1 ? "," : "");
  return ok(text + "]");
});

// What else a module may ask of the host, and a boolean of the input: for true the time
// and bytes, for false none.
on(PRIVATE + 2, (input: Reader): Reply => {
  const wanted = input.bool();
  if (!input.finished()) return failure("bad_input", "not a boolean");
  if (!wanted) return ok("[]");
  const bytes = rand(16), twice = rand(16);
  let text = "[" + nowMs().toString();
  for (let i = 0; i < 16; i++) text += "," + bytes[i].toString();
  for (let i = 0; i < 16; i++) text += "," + twice[i].toString();
  return ok(text + "]");
});

function names(files: File[]): string[] {
  const list: string[] = [];
  for (let i = 0; i < files.length; i++) list.push(files[i].name + " " + files[i].size.toString());
  return list;
}
