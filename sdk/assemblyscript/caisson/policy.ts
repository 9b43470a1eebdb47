// A policy: what it is asked and what it answers, as in docs/plugin-authors.md.

import { ADMIT, RESULT, Reply, failure, ok, on } from "./abi";
import { Reader, quote } from "./json";

export { abi_version, alloc, handle, onConfigure } from "./abi";
export { Reader } from "./json";

/** Bounds on a run; 0 says nothing. */
export class Limits {
  wallMs: i64 = 0;
  cpuMs: i64 = 0;
  memoryBytes: i64 = 0;
  processes: i64 = 0;
  stdoutBytes: i64 = 0;
  stderrBytes: i64 = 0;
  changedFiles: i64 = 0;
  changedFileBytes: i64 = 0;

  static read(r: Reader): Limits {
    const l = new Limits();
    r.object();
    for (let name = r.nextMember(true); name != null; name = r.nextMember(false)) {
      if (name == "wall_ms") l.wallMs = r.int();
      else if (name == "cpu_ms") l.cpuMs = r.int();
      else if (name == "memory_bytes") l.memoryBytes = r.int();
      else if (name == "processes") l.processes = r.int();
      else if (name == "stdout_bytes") l.stdoutBytes = r.int();
      else if (name == "stderr_bytes") l.stderrBytes = r.int();
      else if (name == "changed_files") l.changedFiles = r.int();
      else if (name == "changed_file_bytes") l.changedFileBytes = r.int();
      else r.skip();
    }
    return l;
  }

  text(): string {
    let s = "";
    s = member(s, "changed_file_bytes", this.changedFileBytes);
    s = member(s, "changed_files", this.changedFiles);
    s = member(s, "cpu_ms", this.cpuMs);
    s = member(s, "memory_bytes", this.memoryBytes);
    s = member(s, "processes", this.processes);
    s = member(s, "stderr_bytes", this.stderrBytes);
    s = member(s, "stdout_bytes", this.stdoutBytes);
    s = member(s, "wall_ms", this.wallMs);
    return s.length == 0 ? "" : "{" + s + "}";
  }
}

function member(s: string, name: string, value: i64): string {
  if (value == 0) return s;
  return (s.length == 0 ? s : s + ",") + '"' + name + '":' + value.toString();
}

/** A file: its path below /mnt/data and its size in bytes, -1 when unknown. */
export class File {
  name: string = "";
  size: i64 = 0;

  static list(r: Reader): File[] {
    const list: File[] = [];
    r.array();
    for (let first = true; r.nextElement(first); first = false) {
      const f = new File();
      r.object();
      for (let name = r.nextMember(true); name != null; name = r.nextMember(false)) {
        if (name == "name") f.name = r.string();
        else if (name == "size") f.size = r.int();
        else r.skip();
      }
      list.push(f);
    }
    return list;
  }
}

/** A run that is about to happen. Code, args and files are there if the manifest needs them. */
export class Request {
  org: string = "";
  user: string = "";
  via: string = "";
  session: string = "";
  language: string = "";
  toolchain: string = "";
  config: string = "";
  network: string = "";
  limits: Limits = new Limits();
  codeBytes: i64 = 0;
  code: string = "";
  args: string[] = [];
  files: File[] = [];

  static read(r: Reader): Request {
    const q = new Request();
    r.object();
    for (let name = r.nextMember(true); name != null; name = r.nextMember(false)) {
      if (name == "org") q.org = r.string();
      else if (name == "user") q.user = r.string();
      else if (name == "via") q.via = r.string();
      else if (name == "session") q.session = r.string();
      else if (name == "language") q.language = r.string();
      else if (name == "toolchain") q.toolchain = r.string();
      else if (name == "config") q.config = r.string();
      else if (name == "network") q.network = r.string();
      else if (name == "limits") q.limits = Limits.read(r);
      else if (name == "code_bytes") q.codeBytes = r.int();
      else if (name == "code") q.code = r.string();
      else if (name == "args") q.args = r.strings();
      else if (name == "files") q.files = File.list(r);
      else r.skip();
    }
    return q;
  }
}

/** What became of a run. Streams are there if the manifest needs output, changed if it needs files. */
export class Outcome {
  request: Request = new Request();
  stop: string = "";
  exitCode: i64 = 0;
  signal: string = "";
  wallMs: i64 = 0;
  cpuMs: i64 = 0;
  peakMemoryBytes: i64 = 0;
  stdoutBytes: i64 = 0;
  stderrBytes: i64 = 0;
  stdout: string = "";
  stderr: string = "";
  changed: File[] = [];

  static read(r: Reader): Outcome {
    const o = new Outcome();
    r.object();
    for (let name = r.nextMember(true); name != null; name = r.nextMember(false)) {
      if (name == "request") o.request = Request.read(r);
      else if (name == "stop") o.stop = r.string();
      else if (name == "exit_code") o.exitCode = r.int();
      else if (name == "signal") o.signal = r.string();
      else if (name == "wall_ms") o.wallMs = r.int();
      else if (name == "cpu_ms") o.cpuMs = r.int();
      else if (name == "peak_memory_bytes") o.peakMemoryBytes = r.int();
      else if (name == "stdout_bytes") o.stdoutBytes = r.int();
      else if (name == "stderr_bytes") o.stderrBytes = r.int();
      else if (name == "stdout") o.stdout = r.string();
      else if (name == "stderr") o.stderr = r.string();
      else if (name == "changed") o.changed = File.list(r);
      else r.skip();
    }
    return o;
  }
}

/** What a policy decides about a request. */
export class Verdict {
  limits: Limits = new Limits();
  constructor(readonly denies: bool, readonly code: string, readonly reason: string) {}
}

/** Lets a request pass. Limits that are set on the result tighten those of the request. */
export function allow(): Verdict {
  return new Verdict(false, "", "");
}

/** Denies a request, by a stable word and one sentence for the caller. */
export function deny(code: string, reason: string): Verdict {
  return new Verdict(true, code, reason);
}

/** What a policy tells the caller beside a reply. */
export class Remark {
  constructor(readonly code: string, readonly reason: string) {}
}

let decide: ((r: Request) => Verdict) | null = null;
let look: ((o: Outcome) => Remark[]) | null = null;

/** Makes the module a policy that decides by a function, before a run. */
export function serve(admit: (r: Request) => Verdict): void {
  decide = admit;
  on(ADMIT, (input: Reader): Reply => {
    const request = Request.read(input);
    if (!input.finished()) return failure("bad_input", "the request is not JSON as it should be");
    const verdict = decide!(request);
    if (verdict.denies && verdict.reason.length == 0) return failure("bad_verdict", "reason: is required when the decision is deny");
    const limits = verdict.limits.text();
    return ok(
      "{" + (verdict.code.length > 0 ? '"code":' + quote(verdict.code) + "," : "") +
      '"decision":' + (verdict.denies ? '"deny"' : '"allow"') +
      (limits.length > 0 ? ',"limits":' + limits : "") +
      (verdict.reason.length > 0 ? ',"reason":' + quote(verdict.reason) : "") + "}",
    );
  });
}

/** Makes the module a policy that remarks on what became of a run; the manifest lists the hook "result". */
export function review(result: (o: Outcome) => Remark[]): void {
  look = result;
  on(RESULT, (input: Reader): Reply => {
    const outcome = Outcome.read(input);
    if (!input.finished()) return failure("bad_input", "the outcome is not JSON as it should be");
    const remarks = look!(outcome);
    if (remarks.length == 0) return ok("{}");
    let list = "";
    for (let i = 0; i < remarks.length; i++) {
      if (i > 0) list += ",";
      list += "{" + (remarks[i].code.length > 0 ? '"code":' + quote(remarks[i].code) + "," : "") + '"reason":' + quote(remarks[i].reason) + "}";
    }
    return ok('{"warnings":[' + list + "]}");
  });
}
