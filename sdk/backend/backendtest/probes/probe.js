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
