import Database from 'better-sqlite3';

/**
 * A dashboard: asks the database named first eight fixed questions, again and again, until it gets SIGUSR2. Prints
 * `reading` when it begins, and how long each took, in milliseconds of the clock and of the processor, as JSON, at its
 * end: on a busy machine only the latter tells what the writer costs the reader.
 */
const [file = ''] = process.argv.slice(2);
const QUERIES: Readonly<Record<string, string>> = {
  'one record': "SELECT * FROM content WHERE id = 'cnt_000001234'",
  'newest twenty': 'SELECT id, title, updated_at FROM content ORDER BY updated_at DESC LIMIT 20',
  'by status': 'SELECT status, count(*), avg(word_count) FROM content WHERE _deleted_at IS NULL GROUP BY status',
  'by tag': 'SELECT value, count(*) FROM content_tags GROUP BY value ORDER BY 2 DESC',
  'views by day': 'SELECT date, sum(views), sum(visitors) FROM analytics GROUP BY date ORDER BY date DESC LIMIT 30',
  'views by author': `SELECT c.author_name, sum(a.views) FROM analytics a JOIN content c ON c.id = a.content_id
    GROUP BY c.author_name ORDER BY 2 DESC`,
  'search in titles': "SELECT count(*) FROM content WHERE title LIKE '%security%'",
  freshness: 'SELECT resource, last_success_at, walk_records FROM _sync_checkpoints',
};

const db = new Database(file, { readonly: true });
const statements = Object.entries(QUERIES).map(([name, text]) => ({
  name,
  query: db.prepare(text),
  clock: [0],
  cpu: [0],
}));
const state = { isOver: false };
process.on('SIGUSR2', () => (state.isOver = true));
console.log('reading');
while (!state.isOver) {
  for (const { query, clock, cpu } of statements) {
    const [start, used] = [performance.now(), process.cpuUsage()];
    query.all();
    const { user, system } = process.cpuUsage(used);
    clock.push(performance.now() - start);
    cpu.push((user + system) / 1_000);
    // Somebody looks at the answer.
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
}
// The first time is a cold one.
const all = statements.map(({ name, clock, cpu }) => ({ name, clock: clock.slice(2), cpu: cpu.slice(2) }));
console.log(JSON.stringify(all));
db.close();
