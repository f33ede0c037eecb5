import { sql } from 'kysely';
import type { Words } from '../../../../migrations/dialect.ts';

export const POSTGRES_WORDS: Words = {
  bytes: 'bytea',
  growing: { type: 'bigint', number: (column) => column.generatedAlwaysAsIdentity() },
  moment: (expression) => sql`(${expression} AT TIME ZONE 'UTC')`,
  replaceView: async (db, name, query) => {
    await sql`CREATE OR REPLACE VIEW ${sql.id(name)} AS ${query}`.execute(db);
  },
};
