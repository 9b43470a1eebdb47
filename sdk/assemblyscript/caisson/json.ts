// Reads and writes the JSON of the ABI. The host sends canonical text; a Reader takes
// any JSON all the same, and says once, at the end, whether it was.

const QUOTE: u8 = 0x22, BACKSLASH: u8 = 0x5c, MAX_DEPTH: i32 = 32;

/** Reads one JSON text from the front to the back. After a mistake it reads nothing, empty strings and zeros. */
export class Reader {
  private at: usize;
  private end: usize;
  private depth: i32 = 0;
  private wrong: bool = false;

  constructor(ptr: usize, len: u32) {
    this.at = ptr;
    this.end = ptr + len;
  }

  /** Whether all of the text was JSON, and read. */
  finished(): bool {
    this.space();
    return !this.wrong && this.at == this.end;
  }

  /** Says that a value is not what it should be. */
  fail(): void {
    this.wrong = true;
    this.at = this.end;
  }

  /** Begins an object; nextMember follows. */
  object(): void {
    this.enter(0x7b);
  }

  /** The name of the next member, whose value has to be read then; null at the end of the object. `first` is true the first time. */
  nextMember(first: bool): string | null {
    if (!this.another(first, 0x7d)) return null;
    const name = this.string();
    if (!this.take(0x3a)) this.fail();
    return this.wrong ? null : name;
  }

  /** Begins an array; nextElement follows. */
  array(): void {
    this.enter(0x5b);
  }

  /** Whether there is another element, which has to be read then. */
  nextElement(first: bool): bool {
    return this.another(first, 0x5d);
  }

  strings(): string[] {
    const list: string[] = [];
    this.array();
    for (let first = true; this.nextElement(first); first = false) list.push(this.string());
    return list;
  }

  string(): string {
    if (!this.take(QUOTE)) {
      this.fail();
      return "";
    }
    const start = this.at;
    let escapes = false;
    while (this.at < this.end) {
      const c = load<u8>(this.at);
      if (c == QUOTE) {
        const n = this.at++ - start;
        return escapes ? this.unescape(start, n) : String.UTF8.decodeUnsafe(start, n);
      }
      if (c < 0x20) break;
      if (c == BACKSLASH) {
        escapes = true;
        this.at++; // whatever follows does not end the string
      }
      this.at++;
    }
    this.fail();
    return "";
  }

  /** An integer of 64 bits. */
  int(): i64 {
    this.space();
    const start = this.at;
    const negative = this.at < this.end && load<u8>(this.at) == 0x2d;
    if (negative) this.at++;
    let n: u64 = 0;
    const digits = this.at;
    while (this.at < this.end && isDigit(load<u8>(this.at))) {
      const d = load<u8>(this.at++) - 0x30;
      if (n > (<u64>i64.MAX_VALUE - d) / 10) {
        this.fail();
        return 0;
      }
      n = n * 10 + d;
    }
    if (this.at == digits || this.at - start > 20) this.fail();
    return this.wrong ? 0 : negative ? -(<i64>n) : <i64>n;
  }

  bool(): bool {
    if (this.word("true")) return true;
    if (!this.word("false")) this.fail();
    return false;
  }

  /** Drops a value of any kind. */
  skip(): void {
    this.space();
    if (this.at >= this.end) return this.fail();
    const c = load<u8>(this.at);
    if (c == QUOTE) {
      this.string();
    } else if (c == 0x7b) {
      this.object();
      for (let first = true; this.nextMember(first) != null; first = false) this.skip();
    } else if (c == 0x5b) {
      this.array();
      for (let first = true; this.nextElement(first); first = false) this.skip();
    } else if (c == 0x2d || isDigit(c)) {
      while (this.at < this.end && isNumber(load<u8>(this.at))) this.at++;
    } else if (!this.word("true") && !this.word("false") && !this.word("null")) {
      this.fail();
    }
  }

  private space(): void {
    while (this.at < this.end && isSpace(load<u8>(this.at))) this.at++;
  }

  private take(c: u8): bool {
    this.space();
    if (this.at >= this.end || load<u8>(this.at) != c) return false;
    this.at++;
    return true;
  }

  private enter(c: u8): void {
    if (++this.depth > MAX_DEPTH || !this.take(c)) this.fail();
  }

  private another(first: bool, close: u8): bool {
    if (this.wrong) return false;
    if (this.take(close)) {
      this.depth--;
      return false;
    }
    if (!first && !this.take(0x2c)) this.fail();
    return !this.wrong;
  }

  private word(text: string): bool {
    this.space();
    const n = <usize>text.length;
    if (this.end - this.at < n) return false;
    for (let i: usize = 0; i < n; i++) {
      if (load<u8>(this.at + i) != <u8>text.charCodeAt(<i32>i)) return false;
    }
    this.at += n;
    return true;
  }

  /** A string with escapes, which never are shorter than what they stand for. */
  private unescape(from: usize, n: usize): string {
    const buffer = new ArrayBuffer(<i32>n);
    const start = changetype<usize>(buffer);
    const end = from + n;
    let to = start;
    while (from < end) {
      const c = load<u8>(from++);
      if (c != BACKSLASH) {
        store<u8>(to++, c);
        continue;
      }
      const e = load<u8>(from++);
      if (e != 0x75) {
        const plain = unescaped(e);
        if (plain == 0) {
          this.fail();
          return "";
        }
        store<u8>(to++, plain);
        continue;
      }
      let point = hex4(from, end);
      from += 4;
      if (point >= 0xd800 && point < 0xdc00 && from + 6 <= end && load<u16>(from) == 0x755c) {
        const low = hex4(from + 2, end);
        if (low >= 0xdc00 && low < 0xe000) {
          point = 0x10000 + ((point - 0xd800) << 10) + (low - 0xdc00);
          from += 6;
        }
      }
      if (point < 0) {
        this.fail();
        return "";
      }
      to = utf8(to, point >= 0xd800 && point < 0xe000 ? 0xfffd : point);
    }
    return String.UTF8.decodeUnsafe(start, to - start);
  }
}

/** The character of a short escape, 0 for none. */
function unescaped(c: u8): u8 {
  switch (c) {
    case 0x22: case 0x5c: case 0x2f: return c;
    case 0x62: return 0x08;
    case 0x66: return 0x0c;
    case 0x6e: return 0x0a;
    case 0x72: return 0x0d;
    case 0x74: return 0x09;
  }
  return 0;
}

function hex4(at: usize, end: usize): i32 {
  if (at + 4 > end) return -1;
  let n = 0;
  for (let i: usize = 0; i < 4; i++) {
    const d = hex(load<u8>(at + i));
    if (d < 0) return -1;
    n = n * 16 + d;
  }
  return n;
}

/** Writes a code point and returns the place after it. */
function utf8(at: usize, c: i32): usize {
  if (c < 0x80) {
    store<u8>(at, <u8>c);
    return at + 1;
  }
  if (c < 0x800) {
    store<u8>(at, <u8>(0xc0 | (c >> 6)));
    store<u8>(at + 1, <u8>(0x80 | (c & 63)));
    return at + 2;
  }
  if (c < 0x10000) {
    store<u8>(at, <u8>(0xe0 | (c >> 12)));
    store<u8>(at + 1, <u8>(0x80 | ((c >> 6) & 63)));
    store<u8>(at + 2, <u8>(0x80 | (c & 63)));
    return at + 3;
  }
  store<u8>(at, <u8>(0xf0 | (c >> 18)));
  store<u8>(at + 1, <u8>(0x80 | ((c >> 12) & 63)));
  store<u8>(at + 2, <u8>(0x80 | ((c >> 6) & 63)));
  store<u8>(at + 3, <u8>(0x80 | (c & 63)));
  return at + 4;
}

function isSpace(c: u8): bool {
  return c == 0x20 || c == 0x0a || c == 0x0d || c == 0x09;
}

function isDigit(c: u8): bool {
  return c >= 0x30 && c <= 0x39;
}

function isNumber(c: u8): bool {
  return isDigit(c) || c == 0x2d || c == 0x2b || c == 0x2e || c == 0x65 || c == 0x45;
}

function hex(c: u8): i32 {
  if (isDigit(c)) return c - 0x30;
  if (c >= 0x61 && c <= 0x66) return c - 0x57;
  if (c >= 0x41 && c <= 0x46) return c - 0x37;
  return -1;
}

/** `text` as a JSON string. */
export function quote(text: string): string {
  let out = '"';
  let start = 0;
  for (let i = 0; i < text.length; i++) {
    const c = text.charCodeAt(i);
    if (c >= 0x20 && c != 0x22 && c != 0x5c) continue;
    out += text.substring(start, i);
    out += c == 0x22 ? '\\"' : c == 0x5c ? "\\\\" : "\\u00" + (c >> 4).toString() + "0123456789abcdef".charAt(c & 15);
    start = i + 1;
  }
  return (start == 0 ? out + text : out + text.substring(start)) + '"';
}
