// Drives the protocol with the published client: mcp.mjs http|stdio URL CAISSON.
// Says ok, or throws.
import assert from "node:assert/strict";
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";
import { StdioClientTransport } from "@modelcontextprotocol/sdk/client/stdio.js";

const [kind, url, caisson] = process.argv.slice(2);
const transport = kind === "http"
  ? new StreamableHTTPClientTransport(new URL(`${url}/mcp`), { requestInit: { headers: { "X-API-Key": process.env.CODE_EXEC_API_KEY } } })
  : new StdioClientTransport({ command: caisson, args: ["mcp", "--url", url], env: process.env });
const client = new Client({ name: "test", version: "1" });
await client.connect(transport);

const { tools } = await client.listTools();
assert.deepEqual(tools.map((t) => t.name).sort(), ["describe", "list_files", "read_file", "run_code", "upload_file"]);

// callTool checks structured content against the tool's output schema.
const call = async (name, args) => {
  const res = await client.callTool({ name, arguments: args });
  assert.ok(!res.isError, JSON.stringify(res.content));
  return res.structuredContent;
};
const stored = await call("upload_file", { name: "in.csv", text: "1,2\n" });
const run = await call("run_code", {
  language: "py", session_id: stored.session_id, code: "open('out.txt', 'w').write(open('in.csv').read() * 2); print('done')",
});
assert.equal(run.stdout, "done\n");
assert.equal(run.exit_code, 0);
assert.deepEqual(run.files.map((f) => f.name), ["out.txt"]);
const list = await call("list_files", { session_id: run.session_id });
assert.equal(list.total, 2);
const read = await call("read_file", { session_id: run.session_id, file: run.files[0].id });
assert.equal(read.text, "1,2\n1,2\n");
const known = await call("describe", {});
assert.ok(known.languages.some((l) => l.id === "py"));
const refused = await client.callTool({ name: "run_code", arguments: { language: "cobol", code: "x" } });
assert.ok(refused.isError && refused.content[0].text.startsWith("unsupported_language"));

// Progress comes while a program runs, and a call can be cancelled.
const abort = new AbortController();
const endless = client.callTool({ name: "run_code", arguments: { language: "py", code: "while True: pass" } }, undefined, {
  signal: abort.signal, onprogress: () => abort.abort(new Error("enough")),
});
await assert.rejects(endless, /enough/);
await client.close();
console.log("ok");
