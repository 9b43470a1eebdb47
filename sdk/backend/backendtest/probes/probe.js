// The program of the conformance kit: its arguments are operations, each with a
// fixed number of arguments of its own, carried out in order.
const fs = require('fs')
const path = require('path')

const args = process.argv.slice(2)
const take = () => args.shift()

function parents(file) {
  const dir = path.dirname(file)
  if (dir !== '.' && dir !== '/') fs.mkdirSync(dir, { recursive: true })
}

// A pipe that is full makes node's writeSync fail: the reader is only slow.
function emit(fd, data) {
  const bytes = Buffer.from(data)
  for (let n = 0; n < bytes.length;) {
    try {
      n += fs.writeSync(fd, bytes, n, bytes.length - n)
    } catch (e) {
      if (e.code !== 'EAGAIN') throw e
    }
  }
}

function much(fd, n) {
  const block = 'x'.repeat(65536)
  for (; n > 0; n -= block.length) emit(fd, block.slice(0, n))
}

function cat() {
  const buf = Buffer.alloc(65536)
  for (;;) {
    let n
    try {
      n = fs.readSync(0, buf, 0, buf.length, null)
    } catch (e) {
      if (e.code === 'EAGAIN') continue
      if (e.code === 'EOF') return
      throw e
    }
    if (n === 0) return
    emit(1, buf.subarray(0, n))
  }
}

function sleep(ms) {
  for (const end = Date.now() + ms; Date.now() < end;);
}

// channel opens the control file; node itself cannot talk to a socket and wait.
function channel(file) {
  const fd = fs.openSync(file || process.env.CAISSON_CONTROL, 'r+')
  const buf = Buffer.alloc(1 << 20)
  let rest = Buffer.alloc(0)
  const c = {
    write(text) {
      const bytes = Buffer.from(text)
      for (let n = 0; n < bytes.length;) n += fs.writeSync(fd, bytes, n, bytes.length - n)
    },
    send: (id, name, input) => c.write(JSON.stringify({ id, name, input }) + '\n'),
    line() {
      const parts = [rest]
      for (;;) {
        const at = parts[parts.length - 1].indexOf(10)
        if (at >= 0) break
        const n = fs.readSync(fd, buf, 0, buf.length, null)
        if (n === 0) return null
        parts.push(Buffer.from(buf.subarray(0, n)))
      }
      const all = Buffer.concat(parts)
      const at = all.indexOf(10)
      rest = all.subarray(at + 1)
      return all.subarray(0, at).toString()
    },
    answer() {
      const line = c.line()
      if (line === null) throw new Error('the channel ended')
      return JSON.parse(line)
    },
    close: () => fs.closeSync(fd),
  }
  return c
}

const said = r => ('error' in r ? 'error: ' + r.error : JSON.stringify(r.result)) + '\n'

function ask(name, input) {
  const c = channel()
  c.send('1', name, input)
  return said(c.answer())
}

function gather(n, name) {
  const c = channel()
  for (let i = 0; i < n; i++) c.send(String(i), name, { n: i })
  const replies = {}
  for (let i = 0; i < n; i++) {
    const r = c.answer()
    replies[r.id] = r
  }
  for (let i = 0; i < n; i++) emit(1, said(replies[i]))
}

function pair(name) {
  const both = [channel(), channel()]
  both.forEach((c, i) => c.send('1', name, { who: 'ab'[i] }))
  both.forEach(c => emit(1, said(c.answer())))
}

function raw(text) {
  const c = channel()
  try { c.write(text + '\n') } catch (e) {}
  emit(1, c.line() === null ? 'eof' : 'answered')
}

function dial(file) {
  try {
    channel(file).send('1', 'intruder', {})
    emit(1, 'connected')
  } catch (e) {
    emit(1, 'refused')
  }
}

const kept = []

const operations = {
  out: () => emit(1, take()),
  err: () => emit(2, take()),
  outn: () => much(1, Number(take())),
  errn: () => much(2, Number(take())),
  exit: () => process.exit(Number(take())),
  write: () => { const f = take(); parents(f); fs.writeFileSync(f, take()) },
  append: () => fs.appendFileSync(take(), take()),
  writen: () => { const f = take(); parents(f); fs.writeFileSync(f, 'x'.repeat(Number(take()))) },
  show: () => emit(1, fs.readFileSync(take())),
  exists: () => emit(1, fs.existsSync(take()) ? 'yes' : 'no'),
  rm: () => fs.unlinkSync(take()),
  mkdir: () => fs.mkdirSync(take(), { recursive: true }),
  mv: () => fs.renameSync(take(), take()),
  touch: () => { const t = Number(take()); fs.utimesSync(take(), t, t) },
  link: () => fs.symlinkSync(take(), take()),
  args: () => { while (args.length) emit(1, Buffer.from(take()).toString('hex') + '\n') },
  env: () => { const v = process.env[take()]; emit(1, v === undefined ? '(unset)' : v) },
  cwd: () => emit(1, process.cwd()),
  cat,
  call: () => emit(1, ask(take(), JSON.parse(take()))),
  size: () => emit(1, String(ask(take(), {}).length - 1)),
  give: () => { const name = take(); emit(1, ask(name, 'x'.repeat(Number(take()) - 2))) },
  gather: () => { const n = Number(take()); gather(n, take()) },
  pair: () => pair(take()),
  open: () => { kept.push(channel()); kept[kept.length - 1].send('1', take(), {}) },
  close: () => kept.pop().close(),
  raw: () => raw(take()),
  dial: () => dial(take()),
  spin: () => { for (;;); },
  sleep: () => sleep(Number(take())),
}

while (args.length) {
  const op = take()
  if (!operations[op]) {
    emit(2, 'unknown operation ' + op)
    process.exit(1)
  }
  operations[op]()
}
