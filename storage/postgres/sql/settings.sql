-- Of every connection, except where it reads whole tables (reports.sql and checks.sql): few rows are
-- found by an index, table by table in the order in which they are written, whatever the planner
-- believes of their sizes. They may be empty when a plan is made, which is kept while they grow.
SET enable_seqscan = off;
SET enable_hashjoin = off;
SET enable_mergejoin = off;
SET join_collapse_limit = 1;
SET plan_cache_mode = force_generic_plan;
SET jit = off;
SET max_parallel_workers_per_gather = 0;
