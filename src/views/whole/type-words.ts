import { COLUMN_TYPES } from '../../model/vocabulary.ts';
import type { ViewDialect } from '../../warehouse/view-dialect.ts';

/** The type that an own table remembers, in the words of the database; NULL for none. */
export function typeWord(dialect: ViewDialect, sql: string): string {
  const words = COLUMN_TYPES.map(
    (type) => `WHEN ${dialect.literal(type)} THEN ${dialect.literal(dialect.types[type])}`,
  );
  return dialect.declared(`CAST(CASE ${sql} ${words.join(' ')} END AS TEXT)`, 'text');
}
