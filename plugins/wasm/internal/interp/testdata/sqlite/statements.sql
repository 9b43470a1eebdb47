create table people(id integer primary key autoincrement, name text not null unique, age int check (age >= 0), born date default current_date);
insert into people(name, age, born) values ('Ann', 30, '1990-01-01'), ('Bob', 25, '1995-05-05') returning id, name;
begin;
insert into people(name, age, born) values ('Eve', 1, 'x');
rollback;
select count(*) from people;
insert into people(name, age) values ('Ann', 1);
insert into people(name, age) values ('X', -1);
insert into people(name, age) values (null, 1);
insert into people(name, age, nocol) values ('X', 1, 1);
commit;
.mode csv
.headers on
.output out.csv
select id, name, age from people order by 1;
.output
.mode list
.import --csv out.csv copy
select * from copy;
.import --csv --skip 1 out.csv copy
select count(*) from copy;
.once one.txt
select 'in a file';
select 'not';
select readfile('one.txt');
.parameter set :x 5
.parameter set @y "'text'"
select :x, @y, :none, ?;
with recursive f(n) as (select 1 union all select n+1 from f where n < 5) select group_concat(n, ',') from f;
select name, rank() over (order by age) as r, json_object('n', name) as j from people;
create view v as select name from people; select * from v;
explain query plan select * from people where name = 'Ann';
.tables p%
.schema people
.dump people
attach 'other.db' as other;
create table other.o(x blob);
insert into other.o values (x'0102'), (null), (1.5), ('it''s');
.tables
select quote(x), typeof(x) from other.o;
.mode quote
select * from other.o;
.mode list
pragma foreign_keys = on;
create table c(p int references people(id) on delete cascade);
insert into c values (99);
delete from people where id = 1; select changes();
select 'a' || char(10) || 'b';
select 1;;; select 2;
create trigger t after update on people begin update people set age = age; end;
select 'unfinished
string';
select date('2024-01-31', '+1 month'), strftime('%Y', '2024-05-05'), round(2.5), 7/2, 7/2.0, 1/0, 5 % 3;
select * from people where;
select nofunc(1);
select 'x' like 'X', 'abc' glob 'a*', 'abc' regexp '^a';
insert into people select * from people;
.quit
