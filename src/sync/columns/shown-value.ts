import type { Cell } from '../../model/table.ts';
import type { ColumnType } from '../../model/vocabulary.ts';
import { toDateText, toTimestampText } from '../../shape/columns/timestamps.ts';

/** True unless a view that shows the type of earlier values, such as a time, shows null for this cell of another type. */
export function isShownAs(shown: ColumnType, cell: Cell, stored: ColumnType): boolean {
  if (shown === stored || shown === 'text' || shown === 'json') return true;
  const value: unknown = stored === 'json' ? JSON.parse(String(cell)) : cell;
  if (shown === 'timestamp' || shown === 'date') {
    return typeof value === 'string' && (toTimestampText(value) !== null || toDateText(value) !== null);
  }
  if (shown === 'boolean') return typeof value === 'boolean' || value === 'true' || value === 'false';
  return typeof value !== 'object' && String(value).trim() !== '' && Number.isFinite(Number(value));
}
