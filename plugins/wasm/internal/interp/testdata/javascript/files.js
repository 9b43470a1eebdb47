const fs = require("fs"),
  path = require("path");
const t = (f) => {
  try {
    const r = f();
    console.log("ok", r);
  } catch (e) {
    console.log(e.name, e.code, e.message, e.syscall, e.errno);
  }
};
const base = process.argv[2] || ".";
fs.writeFileSync("a.txt", "hello\n");
fs.appendFileSync("a.txt", "wörld");
t(() => fs.readFileSync("a.txt", "utf8"));
t(() => fs.readFileSync("a.txt"));
t(() => fs.readFileSync("a.txt", { encoding: "hex" }));
t(() => fs.existsSync("a.txt"));
t(() => fs.existsSync("nope"));
t(() => fs.readFileSync("nope"));
t(() => fs.readFileSync("."));
t(() => fs.statSync("nope"));
t(() => fs.readdirSync("nope"));
t(() => fs.mkdirSync("x/y/z"));
t(() => fs.unlinkSync("nope"));
t(() => fs.rmdirSync("nope"));
t(() => fs.renameSync("nope", "q"));
t(() => fs.openSync("nope"));
t(() => fs.closeSync(99));
t(() => fs.writeFileSync("no/dir/f", ""));
t(() => fs.copyFileSync("nope", "x"));
t(() => fs.accessSync("nope"));
t(() => fs.readlinkSync("a.txt"));
t(() => fs.readFileSync(undefined));
t(() => fs.writeFileSync("b", 5));
t(() => fs.readFileSync("a\0b"));
t(() => fs.lstatSync("nope", { throwIfNoEntry: false }));
t(() => fs.rmSync("nope"));
t(() => fs.rmSync("nope", { force: true }));
t(() => fs.readdirSync("a.txt"));
t(() => fs.mkdirSync("a.txt"));
t(() => fs.mkdirSync("a.txt/sub", { recursive: true }));
t(() => fs.openSync("a.txt", "wx"));
t(() => fs.openSync("a.txt", "zz"));
t(() => path.basename(fs.mkdirSync("d/e/f", { recursive: true })));
t(() => fs.mkdirSync("d/e/f", { recursive: true }));
t(() => fs.mkdirSync("d"));
fs.writeFileSync("d/1.txt", "1");
fs.writeFileSync("d/e/2.txt", Buffer.from([1, 2, 3]));
fs.writeFileSync("d/ü ✓.txt", "u");
t(() => fs.readdirSync("d"));
t(() => fs.readdirSync("d", { withFileTypes: true }).map((e) => [e.name, e.isFile(), e.isDirectory()]));
t(() => fs.readdirSync("d", { recursive: true }).sort());
const st = fs.statSync("d/e/2.txt");
console.log(
  st.size,
  st.isFile(),
  st.isDirectory(),
  st.mtime instanceof Date,
  typeof st.mtimeMs,
  st.mode.toString(8),
  Math.abs(Date.now() - st.mtimeMs) < 60000,
  fs.statSync("d").isDirectory(),
);
t(() => fs.rmdirSync("d"));
t(() => fs.rmSync("d"));
fs.cpSync("d", "copy", { recursive: true });
t(() => fs.readdirSync("copy/e"));
fs.rmSync("copy", { recursive: true });
t(() => fs.existsSync("copy"));
fs.renameSync("d/1.txt", "d/renamed.txt");
fs.copyFileSync("d/renamed.txt", "d/c.txt");
t(() => fs.copyFileSync("d/renamed.txt", "d/c.txt", fs.constants.COPYFILE_EXCL));
fs.truncateSync("d/c.txt", 0);
t(() => fs.readFileSync("d/c.txt", "utf8"));
const fd = fs.openSync("fd.bin", "w+");
t(() => fs.writeSync(fd, "abcdef"));
t(() => fs.writeSync(fd, Buffer.from("XY"), 0, 2, 1));
const buf = Buffer.alloc(4);
t(() => fs.readSync(fd, buf, 0, 4, 0));
console.log(buf.toString());
t(() => fs.fstatSync(fd).size);
fs.ftruncateSync(fd, 3);
t(() => fs.readFileSync("fd.bin", "utf8"));
t(() => fs.readSync(fd, buf, { position: 1 }));
fs.closeSync(fd);
t(() => fs.readSync(fd, buf));
fs.symlinkSync("a.txt", "link");
t(() => fs.readlinkSync("link"));
t(() => fs.lstatSync("link").isSymbolicLink());
t(() => fs.readFileSync("link", "utf8").length);
t(() => path.basename(fs.realpathSync("link")));
fs.unlinkSync("link");
fs.utimesSync("a.txt", 1000, 2000);
t(() => fs.statSync("a.txt").mtimeMs);
t(() => fs.statSync("a.txt").mtime.toISOString());
t(() => path.basename(fs.mkdtempSync("tmp-")).length);
fs.chmodSync("a.txt", 0o600);
t(() => (fs.statSync("a.txt").mode & 0o777).toString(8));
fs.writeFileSync("flag.txt", "x", { flag: "a" });
fs.writeFileSync("flag.txt", "y", { flag: "a", encoding: "utf8" });
t(() => fs.readFileSync("flag.txt", "latin1"));
t(() => fs.writeFileSync("u.txt", new Uint8Array([104, 105])));
t(() => fs.readFileSync("u.txt").toString());
t(() => fs.readFileSync(new URL("file://" + process.cwd() + "/u.txt"), "utf8"));
t(() => fs.readFileSync(Buffer.from("u.txt"), "utf8"));
const dir = fs.opendirSync("d");
let ent,
  names = [];
while ((ent = dir.readSync())) names.push(ent.name);
dir.closeSync();
console.log(names.sort());
fs.readFile("a.txt", "utf8", (err, data) => {
  console.log("cb", err, data.length);
  fs.readFile("nope", (err) => {
    console.log("cb err", err.code, err.message);
    fs.stat("a.txt", (e, s) => {
      console.log(e, s.size);
      fs.exists("a.txt", (x) => {
        console.log(x);
        fs.mkdir("cbdir", { recursive: true }, (e, made) => {
          console.log(e, path.basename(made));
          fs.writeFile("w.txt", "w", (e) => {
            console.log(e);
            fs.readdir(".", (e, l) => {
              console.log(l.includes("w.txt"));
              (async () => {
                const p = require("fs/promises");
                await p.writeFile("p.txt", "prom");
                console.log(await p.readFile("p.txt", "utf8"), (await p.stat("p.txt")).size, await p.readdir("d"));
                await p.rm("p.txt");
                await p.access("p.txt").catch((e) => console.log(e.code));
                await p.mkdir("q/w", { recursive: true });
                await p.appendFile("q/w/f", "x");
                await p.copyFile("q/w/f", "q/g");
                await p.rename("q/g", "q/h");
                await p.unlink("q/h");
                for await (const d of await p.opendir("q")) console.log(d.name);
                const fh = await p.open("q/w/f", "r+");
                console.log(await fh.readFile("utf8"), (await fh.stat()).size);
                await fh.write("new", 0);
                const { bytesRead, buffer } = await fh.read(Buffer.alloc(3), 0, 3, 0);
                console.log(bytesRead, buffer.toString());
                await fh.close();
                await p.rm("q", { recursive: true, force: true });
                await p.readFile("nope").catch((e) => console.log(e.message));
                console.log(fs.promises === p);
              })();
            });
          });
        });
      });
    });
  });
});
