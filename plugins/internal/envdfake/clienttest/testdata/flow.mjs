// Uses the provider's client as its users do, against the API and the gateway that the
// arguments name, and fails on anything but what the documentation promises.
import assert from 'node:assert/strict';
import { Sandbox, FileNotFoundError, NotFoundError, CommandExitError, TimeoutError } from 'e2b';

const [apiUrl, sandboxUrl, apiKey] = process.argv.slice(2);
const connection = { apiUrl, sandboxUrl, apiKey, requestTimeoutMs: 60_000 };
const step = async (name, f) => {
  try {
    return await f();
  } catch (error) {
    error.message = `${name}: ${error.message}`;
    throw error;
  }
};
const until = async (what, ok) => {
  for (let i = 0; i < 600; i++) {
    if (await ok()) return;
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
  throw new Error(`no ${what} within 30 s`);
};

const sandbox = await step('create', () =>
  Sandbox.create('base', { ...connection, timeoutMs: 300_000, metadata: { purpose: 'client test', 'k.1': 'v&=2' }, envs: { GIVEN: 'at creation' } }),
);

await step('state', async () => {
  assert.equal(await sandbox.isRunning(), true);
  const info = await sandbox.getInfo();
  assert.equal(info.sandboxId, sandbox.sandboxId);
  assert.equal(info.state, 'running');
  assert.equal(info.metadata.purpose, 'client test');
  await sandbox.setTimeout(600_000);
});

await step('list', async () => {
  const found = await Sandbox.list({ ...connection, query: { metadata: { 'k.1': 'v&=2' }, state: ['running'] } }).nextItems();
  assert.deepEqual(found.map((s) => s.sandboxId), [sandbox.sandboxId]);
  const none = await Sandbox.list({ ...connection, query: { metadata: { purpose: 'other' } } }).nextItems();
  assert.deepEqual(none, []);
});

await step('commands', async () => {
  const chunks = [];
  const result = await sandbox.commands.run('echo "$GIVEN, $MORE"; echo oops >&2', { envs: { MORE: 'now' }, onStdout: (s) => chunks.push(s) });
  assert.equal(result.stdout, 'at creation, now\n');
  assert.equal(result.stderr, 'oops\n');
  assert.equal(result.exitCode, 0);
  assert.equal(chunks.join(''), result.stdout);
  await assert.rejects(sandbox.commands.run('exit 7'), (e) => e instanceof CommandExitError && e.exitCode === 7);
  await assert.rejects(sandbox.commands.run('sleep 60', { timeoutMs: 500 }), TimeoutError);
});

await step('background', async () => {
  const command = await sandbox.commands.run('cat; echo end', { background: true, stdin: true });
  const listed = await sandbox.commands.list();
  assert.ok(listed.some((p) => p.pid === command.pid));
  await sandbox.commands.sendStdin(command.pid, 'typed\n');
  await sandbox.commands.closeStdin(command.pid);
  assert.equal((await command.wait()).stdout, 'typed\nend\n');
  const endless = await sandbox.commands.run('sleep 600', { background: true });
  assert.equal(await sandbox.commands.kill(endless.pid), true);
  await assert.rejects(endless.wait(), CommandExitError);
  assert.equal(await sandbox.commands.kill(endless.pid), false);
});

await step('files', async () => {
  const { files } = sandbox;
  const path = '/home/user/dir/ünï code.txt';
  const info = await files.write(path, 'content');
  assert.equal(info.path, path);
  assert.equal(await files.read(path), 'content');
  const bytes = new Uint8Array(300_000).map((_, i) => i % 251);
  await files.write('/home/user/bytes', bytes.buffer);
  assert.deepEqual(new Uint8Array(await files.read('/home/user/bytes', { format: 'bytes' })), bytes);
  await files.write([
    { path: '/home/user/many/1', data: 'one' },
    { path: '/home/user/many/2', data: 'two' },
  ]);
  assert.deepEqual((await files.list('/home/user/many')).map((e) => [e.name, e.type, e.size]).sort(), [['1', 'file', 3], ['2', 'file', 3]]);
  assert.equal(await files.exists(path), true);
  assert.equal(await files.exists('/home/user/absent'), false);
  assert.equal(await files.makeDir('/home/user/made'), true);
  assert.equal(await files.makeDir('/home/user/made'), false);
  const moved = await files.rename(path, '/home/user/moved.txt');
  assert.equal(moved.path, '/home/user/moved.txt');
  assert.equal((await files.getInfo('/home/user/moved.txt')).size, 7);
  await files.remove('/home/user/moved.txt');
  await assert.rejects(files.read('/home/user/moved.txt'), (e) => e instanceof FileNotFoundError || e instanceof NotFoundError);
  assert.equal((await sandbox.commands.run('cat /home/user/many/1')).stdout, 'one');
});

await step('watch', async () => {
  const seen = [];
  const handle = await sandbox.files.watchDir('/home/user', (e) => seen.push(`${e.type} ${e.name}`), { recursive: true });
  await sandbox.files.write('/home/user/many/3', 'three');
  await until('event', () => seen.includes('create many/3') && seen.includes('write many/3'));
  await handle.stop();
});

await step('terminal', async () => {
  let screen = '';
  const decoder = new TextDecoder();
  const onData = (data) => (screen += decoder.decode(data, { stream: true }));
  const terminal = await sandbox.pty.create({ cols: 100, rows: 30, onData, timeoutMs: 0 });
  const type = (text) => sandbox.pty.sendInput(terminal.pid, new TextEncoder().encode(text));
  await type('stty size; echo rea""dy\n');
  await until('prompt', () => screen.includes('30 100') && screen.includes('ready'));
  await sandbox.pty.resize(terminal.pid, { cols: 120, rows: 40 });
  await type('stty size\n');
  await until('new size', () => screen.includes('40 120'));
  await terminal.disconnect();
  let more = '';
  const again = await sandbox.pty.connect(terminal.pid, { onData: (data) => (more += decoder.decode(data, { stream: true })) });
  await type('echo st""ill\n');
  await until('output after attaching', () => more.includes('still'));
  assert.equal(await sandbox.pty.kill(terminal.pid), true);
  await again.wait().catch((e) => assert.ok(e instanceof CommandExitError));
});

await step('pause and connect', async () => {
  await sandbox.files.write('/home/user/kept', 'kept');
  const sleeper = await sandbox.commands.run('sleep 600', { background: true, timeoutMs: 0 });
  sleeper.wait().catch(() => {});
  await sandbox.pause();
  assert.equal((await sandbox.getInfo()).state, 'paused');
  assert.equal(await sandbox.isRunning(), false);
  const same = await Sandbox.connect(sandbox.sandboxId, { ...connection, timeoutMs: 300_000 });
  assert.equal(await same.files.read('/home/user/kept'), 'kept');
  assert.ok((await same.commands.list()).some((p) => p.pid === sleeper.pid));
  assert.equal(await same.commands.kill(sleeper.pid), true);
});

await step('kill', async () => {
  assert.equal(await sandbox.kill(), true);
  assert.equal(await Sandbox.kill(sandbox.sandboxId, connection), false);
  await assert.rejects(Sandbox.connect(sandbox.sandboxId, connection), NotFoundError);
});

console.log('done');
process.exit(0); // what the client keeps open is its own
