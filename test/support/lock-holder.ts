import Database from 'better-sqlite3';

/** Takes the write lock of the database named first, says so, and holds it for so many milliseconds. */
const [file = '', milliseconds = '0'] = process.argv.slice(2);
const db = new Database(file, { timeout: 10_000 });
db.exec('BEGIN IMMEDIATE');
console.log('locked');
setTimeout(() => db.exec('COMMIT'), Number(milliseconds));
