import type { JsonValue } from '../../model/json.ts';
import type { Cell } from '../../model/table.ts';
import type { TimeZone } from '../../model/time-zone.ts';
import type { ColumnType } from '../../model/vocabulary.ts';
import { fitsDouble, isExact, jsonText } from '../json/parse-json.ts';
import { toDateText, toTimestampText } from './timestamps.ts';
import { fitsNumeric, toBigInt } from './type-lattice.ts';

/** State that conversions share while a page is shaped. */
export interface CellNotes {
  /** True while the record's text holds a `\u` escape: without one there is no NUL and no lone surrogate to look for. */
  suspect: boolean;
  /** Cells in which such characters were replaced. */
  repaired: number;
}

/** Turns a value (never null) into a cell of the row; undefined if the type cannot hold it. */
export type ToCell = (value: JsonValue, notes: CellNotes) => Cell | undefined;

/** How each column type stores a value. */
export const TO_CELL: Record<ColumnType, ToCell> = {
  boolean: (value) => (typeof value === 'boolean' ? value : undefined),
  integer: integerCell,
  double: doubleCell,
  numeric: numericCell,
  date: (value) => (typeof value === 'string' ? (toDateText(value) ?? undefined) : undefined),
  timestamp: (value) => timestampIn(null, value),
  text: textCell,
  json: (value, notes) => repairJson(jsonText(value), notes),
};

/** The conversion of a field whose local times are in `zone`; it accepts the same values. */
export function cellOf(type: ColumnType, zone: TimeZone | null): ToCell {
  return zone === null || type !== 'timestamp' ? TO_CELL[type] : (value) => timestampIn(zone, value);
}

function integerCell(value: JsonValue): Cell | undefined {
  // Adding zero turns -0 into 0.
  if (typeof value === 'number') return Number.isSafeInteger(value) ? value + 0 : undefined;
  return isExact(value) ? (toBigInt(value.rawJSON) ?? undefined) : undefined;
}

function doubleCell(value: JsonValue): Cell | undefined {
  if (typeof value === 'number') return value;
  return isExact(value) && fitsDouble(value.rawJSON) ? Number(value.rawJSON) : undefined;
}

function numericCell(value: JsonValue): Cell | undefined {
  if (typeof value === 'number') return String(value);
  return isExact(value) && fitsNumeric(value.rawJSON) ? value.rawJSON : undefined;
}

function timestampIn(zone: TimeZone | null, value: JsonValue): Cell | undefined {
  if (typeof value !== 'string') return undefined;
  const text = toTimestampText(value, zone);
  if (text !== null) return text;
  return toDateText(value) === null ? undefined : `${value} 00:00:00`;
}

function textCell(value: JsonValue, notes: CellNotes): Cell | undefined {
  if (typeof value === 'string') return notes.suspect ? repairText(value, notes) : value;
  if (typeof value !== 'object') return String(value);
  return isExact(value) ? value.rawJSON : undefined;
}

/**
 * A NUL becomes the symbol for it (U+2400), half a surrogate pair U+FFFD: Postgres refuses both, SQLite cuts or changes
 * them silently. The version's body keeps what was sent.
 */
function repairText(text: string, notes: CellNotes): string {
  if (text.isWellFormed() && !text.includes('\0')) return text;
  notes.repaired++;
  return text.toWellFormed().replaceAll('\0', '␀');
}

/** Repairs JSON text in the same way: jsonb rejects the same characters, even escaped. */
export function repairJson(text: string, notes: CellNotes): string {
  if (!notes.suspect) return text;
  const repaired = text.replaceAll(/\\(?:u[0-9a-f]{4}|.)/g, repairEscape);
  if (repaired !== text) notes.repaired++;
  return repaired;
}

/** Half a surrogate pair is the only character from U+D800 on that `JSON.stringify` escapes. */
function repairEscape(escape: string): string {
  if (escape === '\\u0000') return '␀';
  return escape.startsWith('\\ud') ? '\ufffd' : escape;
}
