"""The dot commands of the sqlite3 shell."""

import csv
import os
import sqlite3

import _caisson_sqlite_modes as modes
from _caisson_sqlite import Failed, Quit

COMMANDS = {}


def command(usage):
    def add(f):
        COMMANDS[usage.split()[0]] = (usage, f)
        return f

    return add


def run(shell, words):
    word, args = (words[0] if words else ""), words[1:]
    # Any beginning of a name will do.
    names = [word] if word in COMMANDS else [n for n in COMMANDS if word and n.startswith(word)]
    if not names:
        raise Failed(f'Error: unknown command or invalid arguments:  "{word}". Enter ".help" for help')
    usage, f = COMMANDS[names[0]]
    try:
        f(shell, *args)
    except TypeError as e:
        if "positional argument" not in str(e):
            raise
        raise Failed(f"Usage: .{usage}") from None


def switch(s):
    return s.lower() in ("on", "yes", "true", "1")


@command("backup ?DB? FILE")
def backup(shell, *args):
    with sqlite3.connect(args[-1]) as to:
        shell.db.backup(to)


COMMANDS["save"] = COMMANDS["backup"]


@command("bail on|off")
def bail(shell, on):
    shell.bail = switch(on)


@command("cd DIRECTORY")
def cd(shell, directory):
    os.chdir(directory)


@command("changes on|off")
def changes(shell, on):
    shell.changes = switch(on)


@command("databases")
def databases(shell):
    for _, name, path in shell.query("pragma database_list"):
        shell.write(f'{name}: {path or chr(34) * 2} r/w\n')


@command("dump ?PATTERN?")
def dump(shell, pattern="%"):
    shell.write("PRAGMA foreign_keys=OFF;\nBEGIN TRANSACTION;\n")
    rest = []
    for kind, name, sql in shell.query(
        "select type, name, sql from sqlite_schema where sql is not null and tbl_name like ? order by tbl_name='sqlite_sequence', rowid", pattern
    ):
        if kind != "table":
            rest.append(sql)
            continue
        if name == "sqlite_sequence":
            shell.write("DELETE FROM sqlite_sequence;\n")
        elif not name.startswith("sqlite_"):
            shell.write(sql + ";\n")
        if sql.lower().startswith("create virtual"):
            continue
        columns = ",".join(modes.name(r[1]) for r in shell.query(f"pragma table_info({modes.name(name)})"))
        for row in shell.db.execute(f"select {columns} from {modes.name(name)}"):
            shell.write(f"INSERT INTO {modes.name(name)} VALUES(" + ",".join(map(modes.literal, row)) + ");\n")
    shell.write("".join(sql + ";\n" for sql in rest) + "COMMIT;\n")


@command("echo on|off")
def echo(shell, on):
    shell.echo = switch(on)


@command("exit ?CODE?")
def exit(shell, code="0"):
    raise Quit(int(code) & 0xFF if code.lstrip("-").isdigit() else 0)


COMMANDS["quit"] = COMMANDS["exit"]


@command("headers on|off")
def headers(shell, on):
    shell.headers, shell.headers_set = switch(on), True


@command("help")
def help(shell, *_):
    shell.write("".join(f".{usage}\n" for usage, _ in sorted(COMMANDS.values(), key=lambda c: c[0])))


@command("import FILE TABLE")
def import_(shell, *args):
    words, skip, delimiter = [], 0, "," if shell.mode == "csv" else shell.separator
    args = list(args)
    while args:
        word = args.pop(0)
        match word.lstrip("-") if word.startswith("-") else None:
            case None:
                words.append(word)
            case "csv":
                delimiter = ","
            case "ascii":
                delimiter = "\x1f"
            case "skip" if args:
                skip = int(args.pop(0))
            case "v":
                pass
            case _:
                raise Failed(f"ERROR: unknown option: \"{word}\". Usage: .import FILE TABLE")
    if len(words) != 2:
        raise Failed("ERROR: missing FILE or TABLE argument. Usage: .import FILE TABLE")
    path, table = words
    if len(delimiter) != 1:
        raise Failed("Error: multi-character column separators not allowed for import")
    try:
        file = open(path, newline="", encoding="utf-8", errors="surrogateescape")
    except OSError:
        raise Failed(f'Error: cannot open "{path}"') from None
    with file:
        rows = csv.reader(file, delimiter=delimiter)
        for _ in range(skip):
            next(rows, None)
        _import_rows(shell, path, table, rows)


def _import_rows(shell, path, table, rows):
    quoted = modes.name(table)
    columns = shell.query("select name from pragma_table_info(?)", table)
    if not columns:
        names = next(rows, None)
        if names is None:
            raise Failed(f'{path}: empty file')
        columns = [n or f"c{i}" for i, n in enumerate(names, 1)]
        shell.db.execute(f"create table {quoted}(" + ", ".join('"%s" TEXT' % n.replace('"', '""') for n in columns) + ")")
    insert = f"insert into {quoted} values (" + ",".join("?" * len(columns)) + ")"
    own = not shell.db.in_transaction
    if own:
        shell.db.execute("begin")
    for row in rows:
        if len(row) < len(columns):
            shell.fail(f"{path}:{rows.line_num}: expected {len(columns)} columns but found {len(row)} - filling the rest with NULL")
            shell.errors -= 1
        elif len(row) > len(columns):
            shell.fail(f"{path}:{rows.line_num}: expected {len(columns)} columns but found {len(row)} - extras ignored")
            shell.errors -= 1
        try:
            shell.db.execute(insert, (row + [None] * len(columns))[: len(columns)])
        except sqlite3.Error as e:
            shell.fail(f"{path}:{rows.line_num}: INSERT failed: {e}")
    if own:
        shell.db.execute("commit")


def _names(shell, kinds, pattern):
    found = []
    for _, schema, _ in shell.query("pragma database_list"):
        prefix = "" if schema == "main" else schema + "."
        query = f"select name from {modes.name(schema)}.sqlite_schema where type in ({kinds}) and name not like 'sqlite_%' and name like ?"
        found += [prefix + name for (name,) in shell.query(query, pattern)]
    found.sort()
    if not found:
        return
    # In columns, down and then across, as wide as 80 characters allow.
    width = max(map(len, found))
    across = max(80 // (width + 2), 1)
    down = (len(found) + across - 1) // across
    for n in range(down):
        shell.write("  ".join(name.ljust(width) for name in found[n::down]) + "\n")


@command("indexes ?TABLE?")
def indexes(shell, pattern="%"):
    if pattern == "%":
        _names(shell, "'index'", pattern)
        return
    for (name,) in shell.query("select name from sqlite_schema where type='index' and tbl_name like ? order by 1", pattern):
        shell.write(name + "\n")


COMMANDS["indices"] = COMMANDS["indexes"]


@command("mode MODE ?TABLE?")
def mode(shell, mode="list", table="table", *_):
    found = [m for m in [mode] if m in modes.MODES] or [m for m in modes.MODES if mode and m.startswith(mode)]
    if not found:
        raise Failed("Error: mode should be one of: " + " ".join(sorted(modes.MODES)))
    shell.set_mode(found[0])
    shell.table = table


@command("nullvalue STRING")
def nullvalue(shell, null):
    shell.null = null


@command("once FILE")
def once(shell, path):
    shell.redirect(path, once=True)


@command("open ?FILE?")
def open_(shell, *args):
    paths = [a for a in args if not a.startswith("-")]
    if "--new" in args and paths and os.path.exists(paths[0]):
        os.remove(paths[0])
    shell.db.close()
    shell.open(paths[0] if paths else ":memory:")


@command("output ?FILE?")
def output(shell, path="stdout"):
    shell.redirect(path)


@command("parameter init|list|set|unset|clear")
def parameter(shell, action, name=None, value=None):
    key = (name or "").lstrip(":@$")
    match action:
        case "set" if value is not None:
            try:
                shell.parameters[key] = shell.query(f"select {value}")[0][0]
            except sqlite3.Error:
                shell.parameters[key] = value
        case "unset":
            shell.parameters.pop(key, None)
        case "clear" | "init":
            shell.parameters.clear()
        case "list":
            for k, v in sorted(shell.parameters.items()):
                shell.write(f":{k} {modes.literal(v)}\n")
        case _:
            raise Failed("Usage: .parameter init|list|set|unset|clear")


@command("print STRING...")
def print_(shell, *args):
    shell.write(" ".join(args) + "\n")


@command("read FILE")
def read(shell, path):
    try:
        with open(path, encoding="utf-8", errors="surrogateescape", newline="") as f:
            source = f.read()
    except OSError:
        raise Failed(f'Error: cannot open "{path}"') from None
    shell.text(source.removeprefix("\ufeff"))


@command("restore FILE")
def restore(shell, path):
    with sqlite3.connect(f"file:{path}?mode=ro", uri=True) as source:
        source.backup(shell.db)


@command("schema ?PATTERN?")
def schema(shell, *args):
    patterns = [a for a in args if not a.startswith("-")] or ["%"]
    for name, sql, kind in shell.query(
        "select name, sql, type from sqlite_schema where sql is not null and name not like 'sqlite_%' and (name like ? or tbl_name like ?) order by rowid",
        *patterns[:1] * 2,
    ):
        head, space, rest = sql.partition(" ")
        sql = head.upper() + " " + rest.partition(" ")[0].upper() + " " + rest.partition(" ")[2] if space else sql
        if kind == "view":
            columns = ",".join(r[1] for r in shell.query("select * from pragma_table_info(?)", name))
            sql += f"\n/* {name}({columns}) */"
        shell.write(sql + ";\n")


@command("separator COLUMN ?ROW?")
def separator(shell, column, row=None):
    shell.separator = column
    if row is not None:
        shell.row_separator = row


@command("show")
def show(shell):
    on = lambda b: "on" if b else "off"
    for name, value in (
        ("echo", on(shell.echo)), ("headers", on(shell.headers)), ("mode", shell.mode),
        ("nullvalue", f'"{shell.null}"'), ("colseparator", f'"{shell.separator}"'),
        ("width", " ".join(map(str, shell.widths))), ("filename", shell.path),
    ):
        shell.write(f"{name:>12}: {value}\n")


@command("tables ?PATTERN?")
def tables(shell, pattern="%"):
    _names(shell, "'table','view'", pattern)


@command("timeout MS")
def timeout(shell, ms):
    pass  # nobody else has the database open


@command("timer on|off")
def timer(shell, on):
    shell.timer = switch(on)


@command("version")
def version(shell):
    shell.write(f"SQLite {sqlite3.sqlite_version} {shell.query('select sqlite_source_id()')[0][0]}\n")


@command("width NUM1 NUM2 ...")
def width(shell, *args):
    shell.widths = [int(a) for a in args]


def _no_processes(shell, *args):
    raise Failed("Error: this sandbox cannot start processes")


def _no_extensions(shell, *args):
    raise Failed("Error: this sandbox cannot load extensions")


COMMANDS["shell"] = COMMANDS["system"] = ("shell CMD ARGS...", _no_processes)
COMMANDS["load"] = ("load FILE ?ENTRY?", _no_extensions)
