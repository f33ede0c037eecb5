import type { View } from '../view.ts';
import type { ViewModel } from '../view-model.ts';
import { ownView } from './own-view.ts';
import { typeWord } from './type-words.ts';

/** `sync_schema_log`: every column that came or was widened, and every one that lost its values. */
export function schemaLogView({ dialect }: ViewModel): View[] {
  const columns = [
    ['changed_at', 'timestamp', 'c."changed_at"', 'When the table changed, UTC.'],
    ['table_name', 'text', 'c."table_name"', 'The table.'],
    ['column_name', 'text', 'c."column_name"', 'Its column.'],
    ['from_type', 'text', typeWord(dialect, 'c."from_type"'), 'The type that it had; null for a new column.'],
    ['to_type', 'text', typeWord(dialect, 'c."to_type"'), 'The type that it has had since.'],
    [
      'kind',
      'text',
      `CAST(coalesce(c."kind", CASE WHEN c."from_type" IS NULL THEN 'new' ELSE 'widened' END) AS TEXT)`,
      'new, widened, gone (the records of a run have no value for it any more), renamed? (the same, and another column seems to have the values), or back.',
    ],
    ['renamed_to', 'text', 'c."renamed_to"', 'The column that seems to have the values now, as table.column.'],
  ] as const;
  const description = 'Every column of a copied table that was added, became wider, lost its values or has them again.';
  return [ownView('sync_schema_log', description, columns, ' FROM "_sync_schema_changes" AS c')];
}
