"use strict";
// The module readline: lines of a stream. There is no terminal to edit them on.

const EventEmitter = require("events");
const { StringDecoder } = require("string_decoder");
const { codedError } = require("errors");

class Interface extends EventEmitter {
  #input;
  #output;
  #decoder = new StringDecoder("utf8");
  #partial = "";
  #lines = []; // that arrived while paused
  #questions = [];
  #ended = false;
  #paused = false;
  #prompt;

  constructor(input, output) {
    super();
    const options = typeof input?.on === "function" ? { input, output } : input;
    if (!options?.input)
      throw codedError(TypeError, "ERR_INVALID_ARG_TYPE", 'The "input" option must be a readable stream');
    this.#input = options.input;
    this.#output = options.output;
    this.#prompt = options.prompt ?? "> ";
    this.terminal = false;
    this.line = "";
    this.closed = false;
    this.#input.on("data", this.#data);
    this.#input.on("end", this.#end);
    this.#input.resume?.();
  }

  #data = (chunk) => {
    const text = this.#partial + (typeof chunk === "string" ? chunk : this.#decoder.write(chunk));
    const lines = text.split(/\r\n|\n|\r(?=.)/s);
    this.#partial = lines.pop();
    this.#lines.push(...lines);
    this.#deliver();
  };

  #end = () => {
    const rest = this.#partial + this.#decoder.end();
    this.#partial = "";
    if (rest !== "") this.#lines.push(rest.replace(/\r$/, ""));
    this.#ended = true;
    this.#deliver();
  };

  #deliver() {
    while (this.#lines.length > 0 && !this.#paused && !this.closed) {
      const line = this.#lines.shift();
      const question = this.#questions.shift();
      if (question) question.answer(line);
      else this.emit("line", line);
    }
    if (this.#ended && this.#lines.length === 0 && !this.closed) this.close();
  }

  question(query, options, callback) {
    if (typeof options === "function") callback = options;
    if (this.closed) throw codedError(Error, "ERR_USE_AFTER_CLOSE", "readline was closed");
    this.#output?.write(query);
    this.#questions.push({ answer: callback });
    this.resume();
    process.nextTick(() => this.#deliver());
  }

  setPrompt(prompt) {
    this.#prompt = prompt;
  }

  getPrompt() {
    return this.#prompt;
  }

  prompt() {
    this.resume();
    this.#output?.write(this.#prompt);
  }

  write(data) {
    if (!this.closed && data !== undefined && data !== null) this.#data(data);
  }

  pause() {
    if (this.#paused) return this;
    this.#paused = true;
    this.#input.pause?.();
    this.emit("pause");
    return this;
  }

  resume() {
    if (!this.#paused) return this;
    this.#paused = false;
    this.#input.resume?.();
    this.emit("resume");
    process.nextTick(() => this.#deliver());
    return this;
  }

  close() {
    if (this.closed) return;
    this.closed = true;
    this.#input.off("data", this.#data);
    this.#input.off("end", this.#end);
    this.#input.pause?.();
    this.emit("close");
  }

  [Symbol.dispose]() {
    this.close();
  }

  async *[Symbol.asyncIterator]() {
    const lines = [];
    let wake = () => {};
    let failure = null;
    this.on("line", (line) => {
      lines.push(line);
      wake();
    });
    this.on("close", () => wake());
    this.#input.on("error", (err) => {
      failure = { err };
      wake();
    });
    try {
      for (;;) {
        while (lines.length > 0) yield lines.shift();
        if (failure) throw failure.err;
        if (this.closed) return;
        await new Promise((resolve) => {
          wake = resolve;
        });
      }
    } finally {
      this.close();
    }
  }
}

function createInterface(input, output) {
  return new Interface(input, output);
}

class PromisesInterface extends Interface {
  question(query, options) {
    return new Promise((resolve, reject) => {
      this.once("close", () => reject(codedError(Error, "ABORT_ERR", "readline was closed")));
      super.question(query, options ?? {}, resolve);
    });
  }
}

const nothing = (...args) => {
  args.findLast((a) => typeof a === "function")?.();
  return true;
};

module.exports = {
  Interface,
  clearLine: nothing,
  clearScreenDown: nothing,
  createInterface,
  cursorTo: nothing,
  emitKeypressEvents() {},
  moveCursor: nothing,
  promises: {
    Interface: PromisesInterface,
    createInterface: (input, output) => new PromisesInterface(input, output),
  },
};
