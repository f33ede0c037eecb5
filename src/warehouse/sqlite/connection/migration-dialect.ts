import { sql } from 'kysely';
import type { Words } from '../../../../migrations/dialect.ts';

export const SQLITE_WORDS: Words = {
  bytes: 'blob',
  growing: { type: 'integer', number: (column) => column.autoIncrement() },
  // Bare, it keeps its declared type; a CAST would make a number or a plain text of it.
  moment: (expression) => expression,
  replaceView: async (db, name, query) => {
    await sql`DROP VIEW ${sql.id(name)}`.execute(db);
    await sql`CREATE VIEW ${sql.id(name)} AS ${query}`.execute(db);
  },
};
