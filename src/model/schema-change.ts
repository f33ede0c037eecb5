/** A column lost its values, seems to have been renamed, or has values again. */
export type ValueChange = 'gone' | 'renamed?' | 'back';

/** A change of a column. */
export interface ColumnChange {
  /** Its type before; null if it is new. */
  from: string | null;
  to: string;
  /** Absent for a column that was added or widened. */
  kind?: ValueChange;
  /** The column that seems to have the values now, if `kind` is `renamed?`. */
  renamed_to?: string;
}

/** Converts a row of `_sync_schema_changes`. */
export function toColumnChange(row: {
  from_type: string | null;
  to_type: string;
  kind: ValueChange | null;
  renamed_to: string | null;
}): ColumnChange {
  const { from_type: from, to_type: to, kind, renamed_to } = row;
  return { from, to, ...(kind === null ? {} : { kind }), ...(renamed_to === null ? {} : { renamed_to }) };
}

/** Formats `new, text`, `integer → text` or `no values any more`. */
export function formatColumnChange({ from, to, kind, renamed_to: renamedTo }: ColumnChange): string {
  if (kind === 'back') return 'has values again';
  if (kind !== undefined) return `no values any more${renamedTo === undefined ? '' : `, ${renamedTo} may have them`}`;
  return from === null ? `new, ${to}` : `${from} → ${to}`;
}
