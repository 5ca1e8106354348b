"""Queries that would mix persons, or reach beyond one table: each must be refused for every database that it names."""

FOR_ALL = r"""
SELECT count(*) AS n FROM visits
SELECT sum(cost) AS s FROM visits
SELECT max(cost) AS m FROM visits
SELECT "max"(cost) AS m FROM visits
SELECT greatest(cost) AS m FROM visits
SELECT max(cost, stay) AS m FROM visits
SELECT total(cost) AS m FROM visits
SELECT string_agg(ward, ',') AS n FROM visits
SELECT group_concat(ward) AS n FROM visits
SELECT array_agg(cost) AS n FROM visits
SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY cost) AS n FROM visits
SELECT any_value(cost) AS n FROM visits
SELECT first(cost) AS n FROM visits
SELECT grouping(cost) AS n FROM visits
SELECT count(*) FILTER (WHERE cost > 1) AS n FROM visits
SELECT abs(DISTINCT cost) AS n FROM visits
SELECT abs(cost ORDER BY cost) AS n FROM visits
SELECT cost + sum(cost) AS n FROM visits
SELECT CASE WHEN cost > avg(cost) THEN 1 ELSE 0 END AS n FROM visits
SELECT DISTINCT cost FROM visits
SELECT DISTINCT ON (person) cost FROM visits
SELECT cost FROM visits GROUP BY cost
SELECT cost FROM visits GROUP BY ALL
SELECT cost FROM visits GROUP BY GROUPING SETS ((cost), ())
SELECT cost FROM visits HAVING cost > 1
SELECT cost FROM visits ORDER BY cost
SELECT cost FROM visits ORDER BY random() LIMIT 3
SELECT cost FROM visits LIMIT 3
SELECT cost FROM visits /* a */ LIMIT /* b */ 3
SELECT cost FROM visits LIMIT ALL
SELECT cost FROM visits LIMIT 10 PERCENT
SELECT cost FROM visits OFFSET 3
SELECT cost FROM visits FETCH FIRST 3 ROWS ONLY
SELECT cost FROM visits FETCH FIRST 3 ROWS WITH TIES
SELECT TOP 3 cost FROM visits
SELECT * FROM visits TABLESAMPLE BERNOULLI (10)
SELECT * FROM visits TABLESAMPLE SYSTEM (10) REPEATABLE (1)
SELECT * FROM visits USING SAMPLE 10
SELECT cost FROM visits WHERE stay > (SELECT avg(stay) FROM visits)
SELECT cost FROM visits v WHERE EXISTS (SELECT 1 FROM visits w WHERE w.person = v.person AND w.cost > v.cost)
SELECT cost FROM visits WHERE person IN (SELECT person FROM visits WHERE cost > 1)
SELECT cost FROM visits WHERE person IN visits
SELECT cost FROM visits WHERE cost > ALL (SELECT cost FROM visits)
SELECT cost FROM visits WHERE (person, cost) IN (SELECT person, cost FROM visits)
SELECT (SELECT max(cost) FROM visits) AS m FROM visits
SELECT coalesce(cost, (SELECT 1)) AS n FROM visits
SELECT CASE WHEN EXISTS (SELECT 1 FROM visits) THEN 1 ELSE 0 END AS n FROM visits
SELECT cost FROM (SELECT cost FROM visits LIMIT 3) AS v
SELECT cost FROM (SELECT cost FROM visits) AS v
SELECT cost FROM (VALUES (1), (2)) AS v (cost)
SELECT count(*) OVER () AS n FROM visits
SELECT row_number() OVER (ORDER BY cost) AS n FROM visits
SELECT lag(cost) OVER (ORDER BY day) AS n FROM visits
SELECT abs(cost) OVER () AS n FROM visits
SELECT sum(cost) FILTER (WHERE true) OVER () AS n FROM visits
SELECT cost FROM visits WINDOW w AS (ORDER BY cost)
SELECT cost FROM visits QUALIFY row_number() OVER () = 1
WITH v AS (SELECT * FROM visits LIMIT 3) SELECT cost FROM v
WITH visits AS (SELECT 1 AS cost) SELECT cost FROM visits
WITH RECURSIVE v AS (SELECT 1 UNION ALL SELECT 2) SELECT cost FROM visits
WITH v AS (DELETE FROM visits RETURNING *) SELECT cost FROM visits
SELECT cost FROM visits UNION SELECT cost FROM visits
SELECT cost FROM visits UNION ALL SELECT cost FROM visits
SELECT cost FROM visits UNION ALL BY NAME SELECT cost FROM visits
SELECT cost FROM visits INTERSECT SELECT 1
SELECT cost FROM visits EXCEPT SELECT 1
SELECT a.cost FROM visits a, visits b
SELECT a.cost FROM visits a, wards w
SELECT a.cost FROM visits a CROSS JOIN visits b
SELECT a.cost FROM visits a CROSS JOIN wards w
SELECT a.cost FROM visits a LEFT JOIN visits b ON a.person = b.person
SELECT a.cost FROM visits a LEFT JOIN VISITS b ON a.person = b.person
SELECT a.cost FROM visits a LEFT JOIN main.visits b ON a.person = b.person
SELECT a.cost FROM visits a JOIN wards w ON a.ward = w.id
SELECT a.cost FROM visits a LEFT JOIN wards w ON a.ward <> w.id
SELECT a.cost FROM visits a LEFT JOIN wards w ON a.ward = w.id OR true
SELECT a.cost FROM visits a LEFT JOIN wards w ON a.ward = w.id AND a.cost > 1
SELECT a.cost FROM visits a LEFT JOIN wards w ON true
SELECT a.cost FROM visits a LEFT JOIN wards w ON w.id = w.id
SELECT a.cost FROM visits a LEFT JOIN wards w USING (id)
SELECT a.cost FROM visits a NATURAL LEFT JOIN wards w
SELECT a.cost FROM visits a LEFT JOIN wards w ON a.ward = w.name
SELECT a.cost FROM visits a LEFT JOIN wards w ON lower(a.ward) = w.id
SELECT a.cost FROM visits a LEFT JOIN other w ON a.ward = w.id
SELECT a.cost FROM visits a LEFT JOIN elsewhere.wards w ON a.ward = w.id
SELECT a.cost FROM visits a LEFT JOIN (SELECT * FROM visits) w ON a.ward = w.id
SELECT a.cost FROM visits a LEFT JOIN wards t ON a.ward = t.id
SELECT a.cost FROM visits a LEFT JOIN wards a ON a.ward = a.id
SELECT a.cost FROM visits a LEFT JOIN LATERAL (SELECT 1) b ON true
SELECT a.cost FROM visits a FULL JOIN wards w ON a.ward = w.id
SELECT a.cost FROM visits a RIGHT JOIN wards w ON a.ward = w.id
SELECT a.cost FROM visits a LEFT ANTI JOIN wards w ON a.ward = w.id
SELECT a.cost FROM visits a SEMI JOIN visits w ON a.ward = w.ward
SELECT w.beds FROM wards w LEFT JOIN visits v ON w.id = v.ward
SELECT b.cost FROM visits
SELECT unnest([cost, cost]) AS c FROM visits
SELECT c FROM visits, unnest(list) AS c
SELECT c FROM visits CROSS JOIN LATERAL unnest(list) AS c
SELECT generate_series(1, 3) AS c FROM visits
SELECT regexp_split_to_table(ward, '') AS c FROM visits
SELECT * FROM generate_series(1, 3)
SELECT * FROM read_csv('/etc/passwd')
SELECT * FROM read_parquet('x.parquet')
SELECT * FROM query_table('visits')
SELECT * FROM pragma_table_info('visits')
SELECT * FROM json_each('[1, 2]')
SELECT * FROM sqlite_master
SELECT * FROM sqlite_stat1
SELECT * FROM main.sqlite_sequence
SELECT * FROM pg_catalog.pg_statistic
SELECT * FROM pg_stats
SELECT * FROM information_schema.columns
SELECT * FROM INFORMATION_SCHEMA.columns
SELECT * FROM duckdb_columns
SELECT cost FROM temp.visits
SELECT cost FROM db.main.visits
SELECT 1 AS n
SELECT cost FROM visits; DROP TABLE visits
SELECT cost FROM visits; SELECT 1
; SELECT cost FROM visits
SELECT cost INTO other FROM visits
COPY visits TO 'x.csv'
COPY (SELECT * FROM visits) TO 'x.csv'
COPY (SELECT * FROM visits) TO PROGRAM 'cat'
PRAGMA table_info(visits)
ATTACH 'x.db' AS x
DETACH visits
INSTALL httpfs
LOAD 'x.so'
SET threads = 4
EXPLAIN ANALYZE SELECT cost FROM visits
VACUUM
TABLE visits
FROM visits
VALUES (1)
(SELECT cost FROM visits)
SHOW TABLES
CREATE TABLE x AS SELECT * FROM visits
CREATE MACRO lower(x) AS 1
INSERT INTO visits SELECT * FROM visits
UPDATE visits SET cost = 0
DELETE FROM visits RETURNING cost
MERGE INTO visits USING visits ON true
CALL something()
EXECUTE prepared
DO $$ BEGIN END $$
SELECT nextval('s') AS n FROM visits
SELECT currval('s') AS n FROM visits
SELECT lastval() AS n FROM visits
SELECT setval('s', 1) AS n FROM visits
SELECT setseed(0.5) AS n FROM visits
SELECT set_config('role', 'x', false) AS n FROM visits
SELECT pg_sleep(1) AS n FROM visits
SELECT pg_advisory_lock(1) AS n FROM visits
SELECT pg_notify('a', ward) AS n FROM visits
SELECT txid_current() AS n FROM visits
SELECT random() AS n FROM visits
SELECT rand() AS n FROM visits
SELECT gen_random_uuid() AS n FROM visits
SELECT now() AS n FROM visits
SELECT current_timestamp AS n FROM visits
SELECT current_date AS n FROM visits
SELECT clock_timestamp() AS n FROM visits
SELECT date('now') AS n FROM visits
SELECT strftime('%s', 'now') AS n FROM visits
SELECT age(day) AS n FROM visits
SELECT current_user AS n FROM visits
SELECT version() AS n FROM visits
SELECT pg_read_file('/etc/passwd') AS n FROM visits
SELECT lo_import('/etc/passwd') AS n FROM visits
SELECT readfile('/etc/passwd') AS n FROM visits
SELECT dblink('x', 'y') AS n FROM visits
SELECT query_to_xml('select 1', true, true, '') AS n FROM visits
SELECT getvariable('x') AS n FROM visits
SELECT load_extension('x') AS n FROM visits
SELECT last_insert_rowid() AS n FROM visits
SELECT changes() AS n FROM visits
SELECT my_function(cost) AS n FROM visits
SELECT public.lower(ward) AS n FROM visits
SELECT pg_catalog.lower(ward) AS n FROM visits
SELECT ward || my_function(cost) AS n FROM visits WHERE true
SELECT cost OPERATOR(public.+) 1 AS n FROM visits
SELECT 'visits'::regclass AS n FROM visits
SELECT ward::regclass AS n FROM visits
SELECT cast(ward AS regprocedure) AS n FROM visits
SELECT cast(ward AS date) AS n FROM visits
SELECT ward::timestamptz AS n FROM visits
SELECT 'now'::timestamp AS n FROM visits
SELECT cast('today' AS date) AS n FROM visits
SELECT date 'now' AS n FROM visits
SELECT timestamp 'tomorrow' AS n FROM visits
SELECT cost FROM visits WHERE day > 'yesterday'
SELECT cost FROM visits WHERE day > ' Tomorrow 04:05'
SELECT cost FROM visits WHERE day > CASE WHEN true THEN 'now' END
SELECT cost::mytype AS n FROM visits
SELECT cost::json AS n FROM visits
SELECT cost::int[] AS n FROM visits
SELECT ward COLLATE "C" AS n FROM visits
SELECT cost FROM visits WHERE ward COLLATE NOCASE = 'a'
SELECT rowid FROM visits
SELECT rowid AS cost FROM visits
SELECT cost FROM visits WHERE ROWID < 10
SELECT "rowid" FROM visits
SELECT _rowid_ FROM visits
SELECT oid FROM visits
SELECT ctid FROM visits
SELECT cost FROM visits WHERE ctid = '(0,1)'
SELECT xmin FROM visits
SELECT "XMIN" FROM visits
SELECT tableoid FROM visits
SELECT visits.* FROM visits
SELECT (visits).cost FROM visits
SELECT (visits.*)::text AS n FROM visits
SELECT row(cost, stay) AS n FROM visits
SELECT (cost, stay) AS n FROM visits
SELECT COLUMNS(*) FROM visits
SELECT COLUMNS('c.*') FROM visits
SELECT * EXCLUDE (cost) FROM visits
SELECT * REPLACE (sum(cost) AS cost) FROM visits
SELECT abs(*) AS n FROM visits
SELECT cost FROM visits FOR UPDATE
SELECT cost FROM visits FOR SHARE SKIP LOCKED
SELECT cost FROM visits AT (VERSION => 3)
SELECT cost FROM visits FOR SYSTEM_TIME AS OF '2026-01-01'
SELECT cost FROM visits INDEXED BY i
SELECT ? AS n FROM visits
SELECT :a AS n FROM visits
SELECT array[cost] AS n FROM visits
SELECT [x FOR x IN [cost]] AS n FROM visits
SELECT list_transform([cost], x -> x) AS n FROM visits
SELECT {'a': cost} AS n FROM visits
SELECT cost -> 'a' AS n FROM visits
SELECT ward[1] AS n FROM visits
SELECT json_extract(ward, '$.a') AS n FROM visits
SELECT day + interval '1 day' AS n FROM visits
SELECT cost FROM visits WHERE ward SIMILAR TO 'a'
SELECT cost FROM visits WHERE ward ~ '(a+)+$'
SELECT cost FROM visits WHERE ward GLOB 'a*'
SELECT cost FROM visits WHERE visits MATCH 'a'
SELECT cost FROM visits WHERE cost = ANY (ARRAY[1, 2])
SELECT cost + 1 FROM visits
SELECT cost, cost FROM visits
SELECT /*+ parallel(8) */ cost FROM visits LIMIT 3
SELECT cost FROM visits WHERE 1 = 1; -- ' ; DELETE FROM visits
PIVOT visits ON ward USING sum(cost)
SELECT * FROM visits PIVOT (sum(cost) FOR ward IN ('a', 'b'))
SELECT * FROM visits UNPIVOT (v FOR n IN (cost, stay))
SELECT * FROM visits MATCH_RECOGNIZE (PATTERN (a) DEFINE a AS true)
SELECT cost FROM visits CONNECT BY PRIOR cost = stay
SELECT cost FROM visits PREWHERE cost > 1
SELECT U&'\0041' AS n FROM visits
SELECT x'41' AS n FROM visits
SELECT {fn now()} AS n FROM visits
SELECT
not SQL at all
'
"""

REFUSED = [line for line in FOR_ALL.splitlines() if line]
