// Generated from the OpenAPI document by tools/clients; change that, and run make generate.

/** The input that a file is a changed version of. */
export interface FileOrigin {
  id: string;
  storage_session_id: string;
}

/** A file of a session. */
export interface File {
  id: string;
  name: string;
  contentType?: string;
  entity_id?: string;
  inherited?: boolean;
  kind?: string;
  modified_from?: FileOrigin;
  resource_id?: string;
  session_id?: string;
  size?: number;
  storage_session_id?: string;
  version?: number;
}

export interface CodeRun {
  code: string;
  lang: string;
  args?: string[];
  entity_id?: string;
  files?: File[];
  runtime_session_hint?: string;
  session_id?: string;
  timeout?: number;
  user_id?: string;
}

/** Counts changed files that could not be handed back. */
export interface ArtifactDelivery {
  attempted: number;
  code: string;
  delivered: number;
  failed: number;
  status: string;
}

export interface PolicyWarning {
  policy: string;
  reason: string;
  code?: string;
}

export interface CodeResult {
  code: number | null;
  files: File[];
  message: string | null;
  session_id: string;
  signal: string | null;
  status: string | null;
  stderr: string;
  stdout: string;
  wall_time: number;
  artifact_delivery?: ArtifactDelivery;
  deleted_files?: string[];
  error?: unknown;
  policy_warnings?: PolicyWarning[];
  retry_after_seconds?: number;
}

export interface Uploaded {
  filename: string;
  size: number;
  status: string;
  error?: string;
  fileId?: string;
}

export interface UploadReply {
  files: Uploaded[];
  message: string;
  code?: string;
  error?: string;
  session_id?: string;
  status?: number;
  storage_session_id?: string;
}

export interface FileMetadata {
  "content-type": string;
  "original-filename": string;
}

export interface ListedFile {
  contentType: string;
  etag: string;
  id: string;
  lastModified: string;
  metadata: FileMetadata;
  name: string;
  session_id: string;
  size: number;
  storage_session_id: string;
  read_only?: boolean;
}

export interface Error {
  error: unknown;
  message: string;
  status: number;
  code?: string;
  request_id?: string;
  retry_after_seconds?: number;
}

const base = (process.env.CAISSON_URL ?? "http://127.0.0.1:8080") + "/v1";
const key = process.env.CODE_EXEC_API_KEY ?? "";

async function call(method: string, path: string, body?: BodyInit, headers: Record<string, string> = {}): Promise<Response> {
  const res = await fetch(base + path, { method, body, headers: { "X-API-Key": key, ...headers } });
  if (!res.ok) {
    const e = (await res.json()) as Error;
    throw new globalThis.Error(`${e.message} (${res.status} ${e.code})`);
  }
  return res;
}

/** Run a program and hand back its output and the files that it made. */
export async function runCode(run: CodeRun): Promise<CodeResult> {
  const res = await call("POST", "/exec", JSON.stringify(run), { "Content-Type": "application/json" });
  return (await res.json()) as CodeResult;
}

/** Store the files of a form in one session, all or none. */
export async function uploadFile(name: string, content: Blob, session?: string): Promise<UploadReply> {
  const form = new FormData();
  if (session) form.append("session_id", session); // fields come before files
  form.append("file", content, name);
  return (await (await call("POST", "/upload", form)).json()) as UploadReply;
}

/** List the files of a session. */
export async function listFiles(sid: string): Promise<ListedFile[]> {
  return (await (await call("GET", `/files/${encodeURIComponent(sid)}`)).json()) as ListedFile[];
}

/** Read a file. */
export async function downloadFile(sid: string, fid: string): Promise<Blob> {
  return await (await call("GET", `/download/${encodeURIComponent(sid)}/${encodeURIComponent(fid)}`)).blob();
}

/** Delete a file. */
export async function deleteFile(sid: string, fid: string): Promise<void> {
  await call("DELETE", `/files/${encodeURIComponent(sid)}/${encodeURIComponent(fid)}`);
}

const stored = await uploadFile("numbers.csv", new Blob(["1,2,3\n"]));
const program = `
numbers = [int(n) for n in open("numbers.csv").read().split(",")]
print("sum", sum(numbers))
open("squares.txt", "w").write(" ".join(str(n * n) for n in numbers))
`;
const result = await runCode({ lang: "py", code: program, session_id: stored.session_id });
console.log(result.stdout.trim());
for (const file of result.files) {
  console.log(file.name, await (await downloadFile(result.session_id, file.id)).text());
}
await deleteFile(result.session_id, stored.files[0].fileId!);
console.log((await listFiles(result.session_id)).map((f) => f.metadata["original-filename"]).join(" "));
