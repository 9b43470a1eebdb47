const p = require("path");
for (const x of [
  "",
  "/",
  "//",
  "a",
  "a/",
  "/a",
  "/a/",
  "a/b",
  "/a/b/",
  "./a",
  "../a",
  "a/..",
  "a/../..",
  "/a/../../b",
  ".",
  "..",
  "./",
  "a/./b",
  "a.txt",
  ".bashrc",
  "a.tar.gz",
  "a.",
  ".a.b",
  "/x/y.z/",
  "..a",
  "a/b/../../c",
  "...",
  "a/...",
])
  console.log(
    JSON.stringify(x),
    p.normalize(x),
    p.dirname(x),
    p.basename(x),
    p.extname(x),
    p.isAbsolute(x),
    JSON.stringify(p.parse(x)),
  );
console.log(
  p.join("a", "..", "b", "", "/c"),
  p.join(""),
  p.join("/a", "../b"),
  p.join("a", ""),
  p.join("..", "a"),
  p.resolve("/a", "b", "../c"),
  p.resolve("/a", "/b"),
  p.resolve("/a/b/", ".."),
  p.relative("/a/b/c", "/a/d"),
  p.relative("/a", "/a"),
  p.relative("/", "/x/y"),
  p.relative("/x/y", "/"),
  p.basename("a.txt", ".txt"),
  p.basename("/a/b.html", "html"),
  p.format({ dir: "/d", base: "b" }),
  p.format({ root: "/", name: "f", ext: ".t" }),
  p.format({ dir: "x", name: "f", ext: "t" }),
  p.sep,
  p.delimiter,
  p.posix === p,
);
for (const f of [() => p.join(1), () => p.basename(null), () => p.resolve({})]) {
  try {
    f();
  } catch (e) {
    console.log(e.code, e.message);
  }
}
