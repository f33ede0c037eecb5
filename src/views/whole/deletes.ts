import type { View } from '../view.ts';
import { ownView } from './own-view.ts';

/** `sync_deletes`: every delete, and when the record was back. */
export function deletesView(): View[] {
  const columns = [
    ['resource', 'text', 'd."resource"', 'The resource of the record.'],
    ['id', 'text', 'd."id"', 'The key of the record.'],
    [
      'deleted_at',
      'timestamp',
      'd."deleted_at"',
      'When the record was deleted by the word of the service, else when the service was asked and no longer had it, UTC.',
    ],
    [
      'restored_at',
      'timestamp',
      'd."restored_at"',
      'When the service was asked and had the record again, UTC; null as long as it is gone.',
    ],
  ] as const;
  return [ownView('sync_deletes', 'Every delete of a record, and when it was restored.', columns, FROM)];
}

const FROM = ' FROM "_sync_deletes" AS d';
