"""The sqlite3 shell, on the SQLite that CPython has: reads SQL and dot commands,
prints rows and errors as the shell of SQLite 3.41 does, and ends with its codes.
"""

import base64
import hashlib
import io
import re
import sqlite3
import sys
import time

import _caisson_sqlite_modes as modes


class Quit(Exception):
    """Ends the shell with a code."""


class Failed(Exception):
    """A command failed; the text is for standard error."""


class _Null(dict):
    def __missing__(self, key):
        return None


def _readfile(path):
    try:
        with open(path, "rb") as f:
            return f.read()
    except OSError:
        return None


def _writefile(path, data):
    if isinstance(data, str):
        data = data.encode("utf-8", "surrogateescape")
    with open(path, "wb") as f:
        return f.write(data or b"")


def _base64(value):
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    return None if value is None else base64.b64decode(value)


FUNCTIONS = (
    ("readfile", 1, _readfile), ("writefile", 2, _writefile), ("base64", 1, _base64),
    ("regexp", 2, lambda p, s: None if p is None or s is None else re.search(p, str(s)) is not None),
    ("regexpi", 2, lambda p, s: None if p is None or s is None else re.search(p, str(s), re.I) is not None),
    ("sha3", 1, lambda v: None if v is None else hashlib.sha3_256(v if isinstance(v, bytes) else str(v).encode()).digest()),
)


# What is not to be looked into, and what is looked for.
TOKENS = re.compile(r"'[^']*'|\"[^\"]*\"|`[^`]*`|\[[^]]*\]|--[^\n]*|/\*.*?\*/|;|[:@$]\w+|\?\d*", re.S)


def split(sql):
    """Splits a text into statements; the last may be incomplete."""
    start = 0
    for m in TOKENS.finditer(sql):
        if m[0] == ";" and sqlite3.complete_statement(sql[start : m.end()]):
            yield sql[start : m.end()]
            start = m.end()
    yield sql[start:]


COMMENTS = re.compile(r"--[^\n]*|/\*.*?(\*/|$)", re.S)
PLAN = re.compile(r"explain\s+query\s+plan\b", re.I)


def blank(sql):
    """Reports whether there is nothing to run in a text."""
    return not COMMENTS.sub("", sql).strip(" \t\r\n\f;")


# Words of a dot command: in single quotes as they are, in double quotes with escapes.
WORDS = re.compile(r"""'([^']*)(?:'|$)|"((?:[^"\\]|\\.)*)(?:"|$)|(\S+)""", re.S)
ESCAPES = re.compile(r"\\([0-7]{1,3}|.)", re.S)
NAMED = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}


def word(m):
    if m[2] is None:
        return m[1] if m[3] is None else m[3]
    return ESCAPES.sub(lambda e: chr(int(e[1], 8) & 255) if e[1].isdigit() else NAMED.get(e[1], e[1]), m[2])


class Shell:
    def __init__(self, out):
        self.stdout = self.out = out
        self.once = False  # out is for one statement only
        self.bail = self.echo = self.changes = self.timer = False
        self.headers, self.headers_set = False, False
        self.null, self.widths, self.table, self.parameters = "", [], "table", _Null()
        self.separator, self.row_separator, self.mode = "|", "\n", "list"
        self.errors = self.depth = 0

    # Databases

    def open(self, path):
        db = sqlite3.connect(path, isolation_level=None, timeout=0)
        db.text_factory = lambda b: b.decode("utf-8", "surrogateescape")
        for name, n, f in FUNCTIONS:
            db.create_function(name, n, f)
        try:
            db.execute("pragma schema_version")
        except sqlite3.Error:
            pass  # the first statement says so
        self.path, self.db = path, db

    def execute(self, sql):
        try:
            return self.db.execute(sql, self.parameters)
        except sqlite3.ProgrammingError as e:
            if "binding" not in str(e).lower():
                raise
            return self.db.execute(sql, self.bindings(sql))

    def bindings(self, sql):
        """Values of the parameters by number, for statements that do not name all."""
        values, known = [], {}
        for m in TOKENS.finditer(sql):
            word = m[0]
            if word[0] in ":@$" and word not in known:
                known[word] = len(values)
                values.append(self.parameters[word[1:]])
            elif word == "?":
                values.append(None)
            elif word[0] == "?":
                values += [None] * (int(word[1:]) - len(values))
        return values

    def query(self, sql, *args):
        return self.db.execute(sql, args).fetchall()

    # Output

    def set_mode(self, mode):
        self.mode = mode
        column, row = modes.SEPARATORS.get(mode, (None, None))
        self.separator, self.row_separator = column or self.separator, row or self.row_separator
        if mode in ("box", "column", "markdown", "table") and not self.headers_set:
            self.headers = True

    def write(self, s):
        self.out.write(s.encode("utf-8", "surrogateescape"))

    def redirect(self, path, once=False):
        if path.startswith("|"):
            raise Failed("Error: this sandbox cannot start processes")
        if self.out is not self.stdout:
            self.out.close()
        self.out, self.once = self.stdout, once
        if path != "stdout":
            try:
                self.out = open(path, "wb")
            except OSError:
                raise Failed(f'Error: cannot open "{path}"') from None

    def fail(self, text):
        self.out.flush()
        sys.stderr.write(text + "\n")
        self.errors += 1

    # Statements

    def run(self, sql, where, tail):
        """Runs one statement. where says where it stands, None for the command line;
        tail is the statement with what comes after it."""
        try:
            cursor = self.execute(sql)
            if cursor.description:
                for text in modes.plan(cursor) if PLAN.match(sql) else modes.show(self, [d[0] for d in cursor.description], cursor):
                    self.write(text)
        except MemoryError:
            self.fail(self.phase("Runtime error", where) + "out of memory (7)")
            return False
        except (sqlite3.Error, sqlite3.Warning, OverflowError, UnicodeError) as e:
            self.fail(self.explain(sql, e, where, tail))
            return False
        finally:
            self.out.flush()
            if self.once:
                self.redirect("stdout")
        return True

    @staticmethod
    def phase(phase, where):
        if where is None:
            return "Error: " + {"Parse error": "in prepare, ", "Runtime error": "stepping, "}[phase]
        return f"{phase}{where}: "

    def explain(self, sql, error, where, tail):
        """Says of an error what the shell does: in which phase it came, and where."""
        code = getattr(error, "sqlite_errorcode", 1) or 1
        parsing = False
        try:
            self.execute("explain " + sql).close()
        except (sqlite3.Error, sqlite3.Warning, OverflowError):
            parsing = True
        message = str(error)
        if not parsing:
            return self.phase("Runtime error", where) + message + (f" ({code & 0xFF})" if code > 1 else "")
        return self.phase("Parse error", where) + message + self.context(tail, sql, message)

    @staticmethod
    def context(tail, sql, message):
        """Points to the token that a message names, if it can only be one."""
        m = re.match(r'near "(.*)": syntax error$|no such (?:column|function): (.*)$', message, re.S)
        token = m and (m[1] or m[2])
        if not token:
            return ""
        pattern = re.escape(token)
        if token[0].isalnum() or token[0] == "_":
            pattern = rf"(?<!\w){pattern}(?!\w)"
        found = [x.start() for x in re.finditer(pattern, sql)]
        if len(found) != 1:
            return ""
        at, line = found[0], tail
        while at > 50:
            line, at = line[1:], at - 1
        line = " ".join(line[:78].rstrip().split("\n"))
        if at < 25:
            return f"\n  {line}\n  {' ' * at}^--- error here"
        return f"\n  {line}\n  {' ' * (at - 14)}error here ---^"

    # Input

    def text(self, source):
        """Runs a whole text. Lines that begin with a dot are commands."""
        self.depth += 1
        if self.depth > 25:
            raise Failed("Input nesting limit (25) reached at line 1. Check recursion.")
        sql, start = "", 0
        for number, line in enumerate(io.StringIO(source), 1):
            if self.echo:
                self.write(line if line.endswith("\n") else line + "\n")
            if not sql and (blank(line) and "/*" not in line):
                continue
            if not sql and line[0] in ".#":
                if line[0] == "." and not self.command(line) and self.bail:
                    break
                continue
            start = start if sql else number
            sql += line
            if ";" in line and sqlite3.complete_statement(sql):
                ok = self.statements(sql, f" near line {start}")
                sql = ""
                if not ok and self.bail:
                    break
        else:
            if not blank(sql):
                self.statements(sql, f" near line {start}")
        self.depth -= 1

    def statements(self, sql, where):
        start, cpu, rest = time.perf_counter(), time.process_time(), sql
        for statement in split(sql):
            tail, rest = rest.strip(), rest[len(statement) :]
            if not blank(statement) and not self.run(statement.strip(), where, tail):
                return False
        if self.timer:
            self.write(f"Run Time: real {time.perf_counter() - start:.3f} user {time.process_time() - cpu:.6f} sys 0.000000\n")
        if self.changes:
            ((changes, total),) = self.query("select changes(), total_changes()")
            self.write(f"changes: {changes}   total_changes: {total}\n")
        return True

    def command(self, line):
        """Runs a dot command. False means that it failed."""
        try:
            commands.run(self, [word(m) for m in WORDS.finditer(line[1:])])
        except Failed as e:
            self.fail(str(e))
        except (sqlite3.Error, sqlite3.Warning) as e:
            self.fail(f"Error: {e}")
        except OSError as e:
            self.fail(f'Error: {e.strerror}: "{e.filename}"')
        else:
            self.out.flush()
            return True
        return False


def main(argv):
    """Runs the shell with its command line and returns the exit code."""
    shell = Shell(sys.stdout.buffer)
    words, commands = list(argv), []
    path = None
    while words:
        word = words.pop(0)
        option = word.lstrip("-") if word.startswith("-") and len(word) > 1 else None
        if option is None:
            if path is None:
                path = word
            else:
                commands.append(word)
        elif option == "version":
            shell.write(f"{sqlite3.sqlite_version}\n")
            return 0
        elif option == "bail":
            shell.bail = True
        elif option == "cmd" and words:
            commands.insert(0, words.pop(0))
        elif option in ("header", "noheader"):
            shell.headers, shell.headers_set = option == "header", True
        elif option in ("separator", "nullvalue") and words:
            setattr(shell, {"separator": "separator", "nullvalue": "null"}[option], words.pop(0))
        elif option in modes.MODES:
            shell.set_mode(option)
        elif option == "echo":
            shell.echo = True
        elif option not in ("batch", "interactive", "safe"):
            sys.stderr.write(f'sqlite3: Error: unknown option: "{word}"\n')
            return 1
    try:
        shell.open(path or ":memory:")
        for c in commands:
            ok = shell.command(c) if c.startswith(".") else shell.statements(c, None)
            if not ok or shell.errors:
                return 1
        if not commands:
            shell.text(sys.stdin.read())
    except Quit as e:
        return e.args[0] or int(shell.errors > 0)
    except Failed as e:
        shell.fail(str(e))
    finally:
        shell.out.flush()
    return int(shell.errors > 0)


import _caisson_sqlite_commands as commands  # needs what is above
