.mode column
create table tree(id integer primary key, parent int, label text);
insert into tree values (1,null,'root'),(2,1,'a'),(3,1,'b'),(4,2,'c');
explain query plan select * from tree t join tree u on u.parent = t.id where t.label in (select label from tree) union all select 1,2,3,4,5,6 order by 1;
with recursive walk(id, label, depth) as (select id, label, 0 from tree where parent is null union all select t.id, t.label, depth + 1 from tree t join walk w on t.parent = w.id) select substr('    ', 1, depth * 2) || label as l, depth from walk;
.headers off
select * from tree;
.headers on
.mode box
select count(*) as n, avg(parent), max(label) from tree group by parent;
.mode markdown
select id as "an id", null as n from tree limit 2;
.nullvalue (none)
select id as "an id", null as n from tree limit 2;
.mode table
select 1 as a, 'long text that goes on and on and on beyond sixty characters, which is the limit' as b union all select 2, 'short';
.mode csv
select 'quote"d', 'a''b', ' sp', 'ü', 1.5, null, x'41';
.mode line
select id, label from tree limit 2;
.mode json
select null as n, 1e999 as i, 'ü' as u, 1 as a;
.mode insert t2
select id as "or", label as "a b", null, 1.25, x'ab' from tree limit 1;
.mode list
.separator "\t" "\n\n"
select 1, 2;
.separator ", "
.mode list
pragma table_info(tree);
.changes on
delete from tree where id = 4;
create table w(a); insert into w values (1),(2);
.print 'it''s' "q\tr" 'a\n' x"y
select json_each.value from json_each('[1,2]');
select printf('%.2f|%5d|%-5s|%s', 3.14159, 42, 'ab', null);
select hex(randomblob(4)) <> hex(randomblob(4));
create table s(a int, b int generated always as (a * 2) stored) strict;
insert into s(a) values ('x');
insert into s(a) values (21); select * from s;
