"""The tables of the spool, and the statements that change or read them."""

SCHEMA = """
CREATE TABLE IF NOT EXISTS jobs (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    job_id TEXT NOT NULL UNIQUE,
    state TEXT NOT NULL,
    attempt INTEGER NOT NULL,
    submit_time REAL NOT NULL,
    start_time REAL,
    submission TEXT NOT NULL,
    placement TEXT,
    attained_gpu_s REAL NOT NULL DEFAULT 0
);
CREATE INDEX IF NOT EXISTS jobs_by_state ON jobs (state);
CREATE TABLE IF NOT EXISTS attempts (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    job_id TEXT NOT NULL,
    attempt INTEGER NOT NULL,
    outcome TEXT NOT NULL,
    finished TEXT NOT NULL,
    placement TEXT,
    in_outbox INTEGER NOT NULL DEFAULT 0,
    UNIQUE (job_id, attempt)
);
CREATE INDEX IF NOT EXISTS attempts_on_their_way ON attempts (in_outbox) WHERE in_outbox = 0;
CREATE TABLE IF NOT EXISTS notes (name TEXT PRIMARY KEY, value TEXT NOT NULL);
"""
COLUMNS = "SELECT name FROM pragma_table_info('jobs')"
ADD_ATTAINED = "ALTER TABLE jobs ADD COLUMN attained_gpu_s REAL NOT NULL DEFAULT 0"
"""For a spool that an earlier version has made."""
SUBMIT = (
    "INSERT INTO jobs (job_id, state, attempt, submit_time, submission)"
    " VALUES (?, 'pending', 1, ?, ?)"
)
IN_STATE = (
    "SELECT job_id, attempt, submit_time, start_time, submission, placement, attained_gpu_s"
    " FROM jobs WHERE state = ? ORDER BY number"
)
START = (
    "UPDATE jobs SET state = 'running', start_time = ?, placement = ?"
    " WHERE job_id = ? AND attempt = ? AND state = 'pending'"
)
PLACEMENT = "UPDATE jobs SET placement = ? WHERE job_id = ? AND state = 'running'"
ATTEMPT = (
    "INSERT INTO attempts (job_id, attempt, outcome, finished, placement)"
    " SELECT job_id, attempt, ?, ?, placement FROM jobs"
    " WHERE job_id = ? AND attempt = ? AND state = 'running'"
)
AGAIN = (
    "UPDATE jobs SET state = 'pending', attempt = attempt + 1, start_time = NULL,"
    " placement = NULL, attained_gpu_s = attained_gpu_s + ? WHERE job_id = ?"
)
DONE = "UPDATE jobs SET state = 'finished' WHERE job_id = ?"
ON_THEIR_WAY = "SELECT finished FROM attempts WHERE in_outbox = 0 ORDER BY number LIMIT ?"
IN_OUTBOX = "UPDATE attempts SET in_outbox = 1 WHERE job_id = ? AND attempt = ?"
FORGET_ATTEMPTS = (
    "DELETE FROM attempts WHERE in_outbox = 1 AND number <= (SELECT MAX(number) FROM attempts) - ?"
)
FORGET_JOBS = (
    "DELETE FROM jobs WHERE state = 'finished' AND job_id NOT IN (SELECT job_id FROM attempts)"
)
NOTE = "INSERT INTO notes VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET value = excluded.value"
