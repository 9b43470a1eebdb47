for (const u of [
  "http://example.org",
  "HTTP://EXAMPLE.org:80/a/../b/./c?x=1&y=é#frag ment",
  "https://user:p%40ss@host:8443/p?q#h",
  "file:///tmp/a b.txt",
  "mailto:a@b.c",
  "data:text/plain,hi",
  "http://[::1]:3000/",
  "http://1.2.3",
  "http://0x7f.1/",
  "https://münchen.de/ä?ö=ü",
  "ftp://f/x",
  "http://a/b?c=%zz",
  "javascript:alert(1)",
  "http://ex.org/a%20b/%7Efoo",
  "http://h/?",
  "http://h/#",
  "http://h:/x",
  "ws://h:80",
  "wss://h:443/",
  "foo://bar/baz",
  "http://a b/",
  "http://",
  "",
  "x",
  "//h",
  "http://h:99999",
  "http://u@h",
  "http://h/..//x",
  "http://[::ffff:1.2.3.4]/",
  "http://a.b.:80/",
  "http://h/'q\"<>`{}|\\x",
]) {
  try {
    const x = new URL(u);
    console.log(
      u,
      "=>",
      x.href,
      x.origin,
      x.protocol,
      x.username,
      x.password,
      x.host,
      x.hostname,
      x.port,
      x.pathname,
      x.search,
      x.hash,
    );
  } catch (e) {
    console.log(u, e.code, e.message, e.name);
  }
}
for (const [r, b] of [
  ["x", "http://h/a/b"],
  ["../x", "http://h/a/b/c"],
  ["/x", "http://h/a?q"],
  ["?n", "http://h/a?q#f"],
  ["#n", "http://h/a?q#f"],
  ["//o/x", "https://h/a"],
  ["", "http://h/a?q#f"],
  ["http:y", "http://h/a/b"],
  [".", "http://h/a/b/"],
  ["..", "http://h/a/b/"],
  ["x", "mailto:a"],
  ["#x", "mailto:a"],
  ["x y", "file:///a/b"],
]) {
  try {
    console.log(r, b, new URL(r, b).href);
  } catch (e) {
    console.log(r, b, e.code);
  }
}
const u = new URL("http://h/p");
u.searchParams.append("a", "1 2");
u.searchParams.append("b", "é&=");
u.hash = "x y";
u.pathname = "/new path";
u.port = "8080";
u.hostname = "other.org";
u.protocol = "https";
u.username = "me";
u.search += "&z=1";
console.log(u.href, u.searchParams.get("z"), [...u.searchParams], JSON.stringify({ u }));
u.search = "";
console.log(String(u), u.searchParams.size);
u.host = "x:9";
console.log(u.host);
u.href = "http://reset/";
console.log(u.href);
u.port = "abc";
u.port = "80";
console.log(u.port === "", URL.canParse("x"), URL.canParse("http://x"));
const s = new URLSearchParams({ q: "a b", r: "c+d", e: "" });
console.log(s.toString(), s.has("q"), s.get("nope"), s.getAll("q"));
s.set("q", "1");
s.append("q", "2");
s.delete("r");
s.sort();
console.log(String(s), [...s.keys()], [...s.values()], s.size);
console.log(
  String(
    new URLSearchParams([
      ["a", "1"],
      ["a", "2"],
    ]),
  ),
  String(new URLSearchParams("?x=%20y&z")),
  new URLSearchParams("a=1&a=2").getAll("a"),
  String(new URLSearchParams("~!*()'-._")),
);
s.forEach((v, k) => console.log(k, v));
const url = require("url");
console.log(
  url.fileURLToPath("file:///a%20b/c"),
  url.pathToFileURL("/a b/c#d?e%").href,
  url.format(new URL("http://a/b?c#d"), { fragment: false }),
  url.resolve("http://h/a/b", "../c"),
  url.resolve("/one/two", "three"),
);
const q = url.parse("http://user:pw@Host.com:80/p/a?x=1&y=2#hash", true);
console.log(q.protocol, q.auth, q.host, q.port, q.hostname, q.hash, q.search, q.query.x, q.pathname, q.path, q.href);
console.log(
  url.parse("/a/b?c=d").pathname,
  url.format({ protocol: "http", host: "h", pathname: "/p", query: { a: 1 } }),
  url.urlToHttpOptions(new URL("http://a:b@h:1/p?q")).path,
  url.domainToASCII("español.com"),
  url.domainToUnicode("xn--espaol-zwa.com"),
);
const qs = require("querystring");
console.log(
  qs.parse("a=1&b=2&a=3&c=%20x+y&d"),
  qs.stringify({ a: 1, b: ["x", "y"], c: "é ", d: true, e: null }),
  qs.escape("a b&c"),
  qs.unescape("a%20b"),
  qs.parse("a:1;b:2", ";", ":"),
  qs.stringify({ a: 1, b: 2 }, ";", ":"),
);
