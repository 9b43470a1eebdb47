// Drives published clients of the code API for the Go test next to this
// directory: reads one JSON request per line from stdin and answers each with
// one line on descriptor 3, because the clients log to stdout and stderr.
//
//   node driver.mjs BASE_URL
import { createWriteStream } from 'node:fs';
import http from 'node:http';
import { createInterface } from 'node:readline';
import { Readable } from 'node:stream';
import axios from 'axios';
import FormData from 'form-data';

const base = process.argv[2];
process.env.LIBRECHAT_CODE_BASEURL = base; // clients up to 3.5 read it when they load

const modules = new Map();
async function load(client) {
  if (!modules.has(client)) modules.set(client, await import(client));
  return modules.get(client);
}

// The credential the way each generation takes it; the oldest one sends the
// header itself.
const auth = (key) => ({ apiKey: key, authHeaders: async () => ({ 'X-API-Key': key }) });
async function codeTool({ client, key, tool, params }) {
  const { createCodeExecutionTool, createBashExecutionTool } = await load(client);
  const create = tool === 'bash' ? createBashExecutionTool : createCodeExecutionTool;
  if (client === '@librechat/agents') {
    return create({ baseUrl: base, authHeaders: auth(key).authHeaders, ...params });
  }
  return create({ ...auth(key), ...params });
}

// What the application around the client sends its own requests with.
const headers = ({ key }) => ({ 'User-Agent': 'LibreChat/1.0', 'User-Id': 'user-1', 'X-API-Key': key });
const agent = new http.Agent({ keepAlive: false });
const request = (options) => axios.request({ httpAgent: agent, validateStatus: () => true, ...options });

const sessions = new Map(); // the memory of ToolNode

const operations = {
  // One call of the tool, with the references a host injects.
  async exec(r) {
    const tool = await codeTool(r);
    const call = { id: 'call_1', name: tool.name, args: r.args, ...r.extra };
    const signal = r.abortAfter ? AbortSignal.timeout(r.abortAfter) : undefined;
    const message = await tool.invoke({ type: 'tool_call', ...call }, { toolCall: call, signal });
    return { content: message.content, artifact: message.artifact };
  },

  // The same several times at once, as a model that calls tools in parallel; says what
  // each came to.
  async flood(r) {
    const calls = Array.from({ length: r.times }, () => operations.exec(r));
    return (await Promise.allSettled(calls)).map(({ value, reason }) => ({ ...value, error: reason && String(reason.message ?? reason) }));
  },

  // One program that calls tools, which are played here: they give their input back, and
  // one of them always fails.
  async program(r) {
    const client = await load(r.client);
    const create = r.bash ? client.createBashProgrammaticToolCallingTool : client.createProgrammaticToolCallingTool;
    const tool = create({ baseUrl: base, ...auth(r.key) });
    const calls = [];
    let running = 0, together = 0;
    const invoke = (name) => async (input) => {
      together = Math.max(together, ++running);
      await new Promise((done) => setTimeout(done, r.slow ?? 20));
      running--;
      calls.push(name);
      if (name === 'broken') throw new Error('nothing works');
      return { tool: name, ...input };
    };
    const schema = { type: 'object', properties: { city: { type: 'string' } }, required: ['city'] };
    const names = r.tools;
    const toolCall = {
      id: 'call_1', name: tool.name, args: r.args, ...r.extra,
      toolDefs: names.map((name) => ({ name, description: `the tool ${name}`, parameters: schema })),
      toolMap: new Map(names.map((name) => [name, { name, schema, invoke: invoke(name) }])),
    };
    const signal = r.abortAfter ? AbortSignal.timeout(r.abortAfter) : undefined;
    const message = await tool.invoke({ type: 'tool_call', ...toolCall }, { toolCall, signal });
    return { content: message.content, artifact: message.artifact, calls, together };
  },

  // One call through the client's own tool node, which remembers sessions.
  async turn(r) {
    const { ToolNode, AIMessage } = await load(r.client);
    const tool = await codeTool(r);
    const node = new ToolNode({ tools: [tool], sessions });
    const { messages } = await node.invoke({
      messages: [new AIMessage({ content: '', tool_calls: [{ id: 'call_1', name: tool.name, args: r.args }] })],
    });
    return { content: messages[0].content, artifact: messages[0].artifact };
  },

  // What a host does with the files that a user attached.
  async attach(r) {
    sessions.set('execute_code', { session_id: r.session_id, files: r.files, lastUpdated: Date.now() });
    return {};
  },

  async list(r) {
    const { fetchSessionFiles } = await load(r.client);
    return fetchSessionFiles(base, r.session_id, r.scope, auth(r.key).authHeaders);
  },

  // A stream of unknown length makes the request chunked, a buffer does not.
  async upload(r) {
    const form = new FormData();
    for (const [name, value] of Object.entries(r.fields ?? {})) form.append(name, value);
    for (const { name, base64, known, contentType } of r.files) {
      const bytes = Buffer.from(base64, 'base64');
      // filepath keeps directories, which filename would drop.
      form.append('file', known ? bytes : Readable.from([bytes]), { filepath: name, contentType });
    }
    const reply = await request({
      method: 'post',
      url: `${base}${r.path}`,
      data: form,
      headers: { 'Content-Type': 'multipart/form-data', ...headers(r) },
      maxBodyLength: 150 << 20,
      maxContentLength: 150 << 20,
    });
    return { status: reply.status, body: reply.data };
  },

  // Uploads of r.mib MiB that are refused; says what each came to.
  async refused(r) {
    const all = [];
    for (let i = 0; i < r.times; i++) {
      const form = new FormData();
      form.append('file', Buffer.alloc(r.mib << 20), { filename: 'large' });
      const known = r.known ? { 'Content-Length': form.getLengthSync() } : {};
      try {
        const reply = await request({
          method: 'post',
          url: `${base}${r.path}`,
          data: form,
          headers: { ...form.getHeaders(), ...headers(r), ...known },
          maxBodyLength: Infinity,
          maxRedirects: r.redirects,
        });
        all.push(`${reply.status} ${reply.data.code} ${reply.headers['retry-after'] ? 'later' : ''}`.trim());
      } catch (error) {
        all.push(String(error.code ?? error.message));
      }
    }
    return all;
  },

  async get(r) {
    const reply = await request({ url: `${base}${r.path}`, headers: headers(r), responseType: 'arraybuffer' });
    return { status: reply.status, headers: { ...reply.headers }, base64: Buffer.from(reply.data).toString('base64') };
  },
};

const out = createWriteStream(null, { fd: 3 });
for await (const line of createInterface({ input: process.stdin })) {
  const r = JSON.parse(line);
  let answer;
  try {
    answer = { result: await operations[r.op](r) };
  } catch (error) {
    answer = { error: String(error?.message ?? error) };
  }
  out.write(JSON.stringify(answer) + '\n');
}
