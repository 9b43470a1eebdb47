create table t(id integer primary key, name text, x real);
insert into t values (1,'ann',1.5),(2,'bob ''q''',NULL),(3,'é✓ long name here',1e20);
select * from t;
.headers on
select * from t;
.mode column
select * from t;
.mode table
select * from t;
.mode box
select * from t;
.mode markdown
select * from t;
.mode line
select * from t;
.mode csv
select *, '' as e, 'a,b' as c, 'plain' from t;
.mode json
select *, x'414243' as b, 0.1 as f, 'a"b
c	\' as s from t;
.mode tabs
select * from t;
.mode quote
select *, x'00ff' from t;
.mode insert
select * from t;
.mode insert foo
select id from t;
.mode html
select id, '<a&b>' from t limit 1;
.mode list
.nullvalue NULL
.separator ;
select * from t;
.headers off
select 1.0, 1e3, 1e15, 123456789.123, 1e-5, 9223372036854775807, -0.0, 1e999, 3.14159265358979;
select x'616263', typeof(x'61');
.tables
.schema
.schema t
create index i on t(name);
create view v as select * from t;
create trigger tr after insert on t begin select 1; select 2; end;
.tables
.indexes
.schema
.dump
.print hello "a b" 'c d'
.databases
select 1; select 2;
select
 3
;
-- comment
/* multi
line */ select 4;
.changes on
update t set x=1;
.changes off
.mode column
.width 5 -8
select id, name from t;
select printf('%0100d', 7) as long, 'a
b' as multi;
.mode box
select printf('%0100d', 7) as long, 'a
b' as multi;
select 1 where 0;
.mode json
select 1 where 0;
.mode list
selec 1;
select * from none;
select nocol from t;
insert into t values (1,'dup',0);
select abs(-9223372036854775808);
.foo
select 'after';
.exit 3
