"""The ways in which the sqlite3 shell prints rows.

Text is str, with surrogates for what is not UTF-8, and a BLOB is bytes.
"""

import math

WRAP = 60  # characters that a column has at most unless told otherwise


def _real(value, digits):
    if math.isinf(value):
        return "Inf" if value > 0 else "-Inf"
    s = f"{value + 0.0 if value else 0.0:.{digits}g}"
    mantissa, e, exponent = s.partition("e")
    return mantissa + ("" if "." in mantissa else ".0") + e + exponent


def text(value, null=""):
    """A value as text, as SQLite itself converts it."""
    if value is None:
        return null
    if isinstance(value, float):
        return _real(value, 15)
    if isinstance(value, bytes):
        return value.split(b"\0")[0].decode("utf-8", "surrogateescape")
    return str(value).split("\0")[0]


def literal(value):
    """A value as SQL."""
    if value is None:
        return "NULL"
    if isinstance(value, float):
        return {math.inf: "1e999", -math.inf: "-1e999"}.get(value) or _real(value, 20)
    if isinstance(value, bytes):
        return "X'" + value.hex() + "'"
    if isinstance(value, str):
        return "'" + value.replace("'", "''") + "'"
    return str(value)


_ESCAPES = {'"': '\\"', "\\": "\\\\", "\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t"}


def _json(value):
    if value is None:
        return "null"
    if isinstance(value, (float, int)):
        return literal(value)
    if isinstance(value, bytes):
        value = value.decode("latin-1")
    return '"' + "".join(_ESCAPES.get(c) or (f"\\u{ord(c):04x}" if c < " " else c) for c in value) + '"'


def _csv(s, separator):
    quoted = s == "" or separator in s or any(c <= " " or c in "\"'\x7f" or c > "\x7f" for c in s)
    return '"' + s.replace('"', '""') + '"' if quoted else s


def _html(s):
    for c, e in ("&", "&amp;"), ("<", "&lt;"), (">", "&gt;"), ('"', "&quot;"), ("'", "&#39;"):
        s = s.replace(c, e)
    return s


_QUOTED_NAME = frozenset("abort all alter and as asc between by case check collate commit constraint create cross default delete desc distinct drop else end escape except exists foreign from full group having if in index inner insert intersect into is isnull join key left like limit natural not notnull null of offset on or order outer primary references right rollback row rows select set table then to transaction trigger union unique update using values view when where with without".split())


def name(s):
    """A name as SQL, quoted where it has to be."""
    plain = s and not s[0].isdigit() and all(c == "_" or c.isalnum() and c.isascii() for c in s)
    return s if plain and s.lower() not in _QUOTED_NAME else '"' + s.replace('"', '""') + '"'


def _lines(s, width):
    """Splits at ends of lines and at a width."""
    out = []
    for line in s.expandtabs(8).split("\n"):
        out.append(line[:width])
        for at in range(width, len(line), width):
            out.append(line[at : at + width])
    return out


def _pad(s, width):
    return s.rjust(-width) if width < 0 else s.ljust(width)


def _columns(shell, names, rows):
    """What is as wide as its widest value needs all rows first."""
    mode = shell.mode
    wanted = shell.widths + [0] * (len(names) - len(shell.widths))
    most = [abs(w) or WRAP for w in wanted]
    head = [_lines(n, w) for n, w in zip(names, most)]
    body = [[_lines(text(v, shell.null), w) for v, w in zip(row, most)] for row in rows]
    if not body:
        return
    widths = []
    for i, w in enumerate(wanted):
        widest = max(len(line) for row in [head, *body] for line in row[i])
        widths.append(w or widest)
    left, middle, right = {"column": ("", "  ", ""), "box": ("│ ", " │ ", " │")}.get(mode, ("| ", " | ", " |"))

    def rule(a, b, c, line):
        return a + b.join(line * (abs(w) + 2) for w in widths) + c + "\n"

    def show(row, center=False):
        for n in range(max(map(len, row))):
            cells = [cell[n] if n < len(cell) else "" for cell in row]
            if center:
                cells = [" " * ((abs(w) - len(s)) // 2) + s for s, w in zip(cells, widths)]
                yield left + middle.join(s.ljust(abs(w)) for s, w in zip(cells, widths)) + right + "\n"
            else:
                yield left + middle.join(map(_pad, cells, widths)) + right + "\n"

    multiline = any(len(cell) > 1 for row in body for cell in row)
    if mode == "column":
        if shell.headers:
            yield from show(head)
            yield "  ".join("-" * abs(w) for w in widths) + "\n"
        for n, row in enumerate(body):
            yield from ["\n"] if multiline and n else []
            yield from show(row)
        return
    rules = {"box": ("┌┬┐─", "├┼┤─", "└┴┘─"), "table": ("+++-",) * 3, "markdown": (None, "|||-", None)}[mode]
    yield rule(*rules[0]) if rules[0] else ""
    yield from show(head, center=True)
    yield rule(*rules[1])
    for n, row in enumerate(body):
        yield rule(*rules[1]) if multiline and n and mode != "markdown" else ""
        yield from show(row)
    yield rule(*rules[2]) if rules[2] else ""


def _line(shell, names, rows):
    width = max([5, *map(len, names)])
    for n, row in enumerate(rows):
        yield "\n" if n else ""
        for name, v in zip(names, row):
            yield f"{name:>{width}} = {text(v, shell.null)}\n"


def _rows_as_json(shell, names, rows):
    keys = [_json(n) for n in names]
    start = "["
    for row in rows:
        yield start + "{" + ",".join(f"{k}:{_json(v)}" for k, v in zip(keys, row)) + "}"
        start = ",\n"
    if start != "[":
        yield "]\n"


def _insert(shell, names, rows):
    into = "INSERT INTO " + name(shell.table)
    if shell.headers:
        into += "(" + ",".join(map(name, names)) + ")"
    for row in rows:
        yield into + " VALUES(" + ",".join(map(literal, row)) + ");\n"


def _rows_as_html(shell, names, rows):
    if shell.headers:
        yield "<TR>" + "".join(f"<TH>{_html(n)}</TH>\n" for n in names) + "</TR>\n"
    for row in rows:
        yield "<TR>" + "".join(f"<TD>{_html(text(v, shell.null))}</TD>\n" for v in row) + "</TR>\n"


def _separated(shell, names, rows):
    cell = {
        "csv": lambda v: shell.null if v is None else _csv(text(v), shell.separator),
        "quote": literal,
    }.get(shell.mode, lambda v: text(v, shell.null))
    started = not shell.headers
    for row in rows:
        if not started:
            started = True
            yield shell.separator.join(cell(n) for n in names) + shell.row_separator
        yield shell.separator.join(map(cell, row)) + shell.row_separator


MODES = {
    "ascii": _separated, "box": _columns, "column": _columns, "csv": _separated, "html": _rows_as_html,
    "insert": _insert, "json": _rows_as_json, "line": _line, "list": _separated, "markdown": _columns,
    "quote": _separated, "table": _columns, "tabs": _separated,
}
SEPARATORS = {"ascii": ("\x1f", "\x1e"), "csv": (",", "\r\n"), "list": ("|", "\n"), "quote": (",", "\n"), "tabs": ("\t", None)}


def plan(rows):
    """Yields what EXPLAIN QUERY PLAN returns as a tree."""
    children = {}
    for id, parent, _, detail in rows:
        children.setdefault(parent, []).append((id, detail))

    def tree(parent, indent):
        below = children.get(parent, [])
        for n, (id, detail) in enumerate(below, 1):
            last = n == len(below)
            yield f"{indent}{'`' if last else '|'}--{detail}\n"
            yield from tree(id, indent + ("   " if last else "|  "))

    yield "QUERY PLAN\n"
    yield from tree(0, "")


def show(shell, names, rows):
    """Yields rows as text in the shell's mode."""
    return MODES[shell.mode](shell, names, rows)
