import Database from 'better-sqlite3';

/**
 * A BI tool that forgot a transaction: reads the database named first, says so, and holds on to what it saw until it
 * gets SIGUSR2. It then prints what it read first and last, and stays, connected and idle, until it is killed.
 */
const [file = ''] = process.argv.slice(2);
const db = new Database(file, { readonly: true });
const read = db.prepare<[], string>('SELECT count(*) || \' \' || total(length("state")) FROM "_sync_limits"').pluck();

db.exec('BEGIN');
const first = read.get();
console.log('reading');
const stay = setInterval(() => undefined, 60_000);
process.on('SIGUSR2', () => {
  const last = read.get();
  db.exec('COMMIT');
  console.log(JSON.stringify({ first, last, fresh: read.get() }));
});
process.on('SIGTERM', () => {
  clearInterval(stay);
  db.close();
});
