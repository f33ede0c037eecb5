import type { Database, Statement } from 'better-sqlite3';
import type { CompiledQuery } from 'kysely';

/**
 * Returns a function that runs statements inside the caller's transaction. Those with values are compiled once and kept;
 * one without any comes once, and may be long.
 */
export function statementRunner(db: Database): (queries: readonly CompiledQuery[]) => void {
  const statements = new Map<string, Statement>();
  return (queries) => {
    for (const { sql: text, parameters } of queries) {
      const statement = statements.get(text) ?? db.prepare(text);
      if (parameters.length > 0) statements.set(text, statement);
      statement.run(...parameters);
    }
  };
}
