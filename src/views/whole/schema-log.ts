import type { View } from '../view.ts';
import type { ViewModel } from '../view-model.ts';
import { ownView } from './own-view.ts';
import { typeWord } from './type-words.ts';

/** `sync_schema_log`: every column that came or was widened. */
export function schemaLogView({ dialect }: ViewModel): View[] {
  const columns = [
    ['changed_at', 'timestamp', 'c."changed_at"', 'When the table changed, UTC.'],
    ['table_name', 'text', 'c."table_name"', 'The table.'],
    ['column_name', 'text', 'c."column_name"', 'Its column.'],
    ['from_type', 'text', typeWord(dialect, 'c."from_type"'), 'The type that it had; null for a new column.'],
    ['to_type', 'text', typeWord(dialect, 'c."to_type"'), 'The type that it has had since.'],
  ] as const;
  const description = 'Every column of a copied table that was added or became wider.';
  return [ownView('sync_schema_log', description, columns, ' FROM "_sync_schema_changes" AS c')];
}
