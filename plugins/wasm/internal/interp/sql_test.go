package interp

import (
	"bytes"
	"context"
	"os"
	"strings"
	"testing"
)

func (s *sandbox) sql(source string) out {
	s.t.Helper()
	need(s.t, "sqlite3")
	p := s.program("sqlite3", "main.sql", source)
	p.Argv = []string{"sqlite3", "-batch", ":memory:", ".read /run/caisson/main.sql"}
	return s.run(context.Background(), p)
}

// The outputs are what the sqlite3 shell 3.40.1 of Debian 12 prints.
func TestSQLGolden(t *testing.T) {
	for name, code := range map[string]int{"modes": 3, "statements": 1, "more": 1} {
		t.Run(name, func(t *testing.T) {
			read := func(ext string) string {
				b, err := os.ReadFile("testdata/sqlite/" + name + ext)
				if err != nil {
					t.Fatal(err)
				}
				return string(b)
			}
			s := newSandbox(t)
			s.expect(s.sql(read(".sql")), code, read(".out"), read(".err"))
		})
	}
}

func TestSQLCommandLine(t *testing.T) {
	s := newSandbox(t)
	need(t, "sqlite3")
	s.file("script.sql", "select 1;\nselec 2;\nselect 3;\n")
	p := s.program("sqlite3", "unused", "")
	version := "3.41.2\n" // of the SQLite in CPython
	if os.Getenv(envBuilt) != "" {
		version = "3.40.1\n"
	}
	for _, tc := range []struct {
		argv           []string
		stdin          string
		code           int
		stdout, stderr string
	}{
		{argv: []string{":memory:", "select 1; select 2", "select 3"}, stdout: "1\n2\n3\n"},
		{argv: []string{"-csv", "-header", ":memory:", "select 1 as a, 'b c' as b"}, stdout: "a,b\r\n1,\"b c\"\r\n"},
		{argv: nil, stdin: "select 'in';\n.quit\nselect 'never';", stdout: "in\n"},
		{argv: []string{"-bail", ":memory:", ".read script.sql"}, code: 1, stdout: "1\n", stderr: "Parse error near line 2: near \"selec\": syntax error\n  selec 2;\n  ^--- error here\n"},
		{argv: []string{"-batch", ":memory:", ".read script.sql"}, code: 1, stdout: "1\n3\n", stderr: "Parse error near line 2: near \"selec\": syntax error\n  selec 2;\n  ^--- error here\n"},
		{argv: []string{":memory:", "selec 1"}, code: 1, stderr: "Error: in prepare, near \"selec\": syntax error\n  selec 1\n  ^--- error here\n"},
		{argv: []string{":memory:", ".read none.sql"}, code: 1, stderr: "Error: cannot open \"none.sql\"\n"},
		{argv: []string{"-version"}, stdout: version},
		{argv: []string{"-nonesuch"}, code: 1, stderr: "sqlite3: Error: unknown option: \"-nonesuch\"\n"},
		{argv: []string{":memory:", ".shell ls"}, code: 1, stderr: "Error: this sandbox cannot start processes\n"},
		{argv: []string{":memory:", ".load x"}, code: 1, stderr: "Error: this sandbox cannot load extensions\n"},
	} {
		p.Argv = append([]string{"sqlite3"}, tc.argv...)
		p.Stdin = strings.NewReader(tc.stdin)
		s.expect(s.run(context.Background(), p), tc.code, tc.stdout, tc.stderr)
	}
}

func TestSQLFiles(t *testing.T) {
	s := newSandbox(t)
	s.file("in.csv", "id,name\n1,Ann\n2,\"B, C\"\n")
	s.expect(s.sql(`.open shop.db
.import --csv in.csv people
create table total as select count(*) as n from people;
.mode json
.output out.json
select * from people;
.output
.mode list
select n from total;
select writefile('raw.bin', x'00ff'), length(readfile('in.csv')), readfile('none') is null;
.backup copy.db
vacuum into 'small.db';
attach '../../secret.db' as s;
.read /etc/passwd
`), 1, "2\n2|23|1\n", "Runtime error near line 13: unable to open database: ../../secret.db (14)\nError: cannot open \"/etc/passwd\"\n")
	if got := s.content("out.json"); got != "[{\"id\":\"1\",\"name\":\"Ann\"},\n{\"id\":\"2\",\"name\":\"B, C\"}]\n" {
		t.Errorf("out.json: %q", got)
	}
	for _, name := range []string{"shop.db", "copy.db", "small.db"} {
		if !bytes.HasPrefix([]byte(s.content(name)), []byte("SQLite format 3\x00")) {
			t.Errorf("%s is no database", name)
		}
	}
	s.expect(s.sql(".open copy.db\nselect name from people where id = '2';"), 0, "B, C\n", "")
	if o := s.python("import sqlite3\nprint(sqlite3.connect('shop.db').execute('select n from total').fetchone())"); o.stdout != "(2,)\n" {
		t.Errorf("Python reads %q, %s", o.stdout, o.stderr)
	}
}

// The library of this version is newer than that of the shell the golden files are
// from; these are what people use of it.
func TestSQLFeatures(t *testing.T) {
	s := newSandbox(t)
	s.expect(s.sql(`select '{"a": [1, 2]}' ->> '$.a[1]', sqrt(16), iif(1, 'y', 'n'), format('%d', 5);
create virtual table docs using fts5(body);
insert into docs values ('the quick fox'), ('lazy dog');
select highlight(docs, 0, '<', '>') from docs where docs match 'quick OR dog' order by rank limit 1;
create virtual table r using rtree(id, a, b);
create table s(a int, b int as (a * 2)) strict;
insert into s(a) values (1) on conflict do nothing returning b;
select sum(a) filter (where a > 0) over (order by a) from s;
select * from (values (1)) as l full join (values (2)) as m on 0;
select 'x' regexp '^x$', base64(x'00ff'), hex(sha3('')) like 'A7FFC6%';
`), 0, "2|4.0|y|5\nlazy <dog>\n2\n1\n1|\n|2\n1|AP8=|1\n", "")
}

func BenchmarkSQLHello(b *testing.B) {
	need(b, "sqlite3")
	s := newSandbox(b)
	p := s.program("sqlite3", "main.sql", "select 1;")
	p.Argv = []string{"sqlite3", "-batch", ":memory:", ".read /run/caisson/main.sql"}
	b.Run("wasm", func(b *testing.B) {
		for b.Loop() {
			if o := s.run(context.Background(), p); o.stdout != "1\n" {
				b.Fatalf("%+v", o)
			}
		}
	})
	b.Run("native", func(b *testing.B) { native(b, "sqlite3", "-batch", ":memory:", "select 1;") })
}
