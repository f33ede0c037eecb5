import type { Words } from '../../../migrations/words.ts';

export const SQLITE_WORDS: Words = {
  bytes: 'blob',
  growing: { type: 'integer', number: (column) => column.autoIncrement() },
};
