/** A column whose values are gone, or seem to be in another one, or are back. */
export type ValueChange = 'gone' | 'renamed?' | 'back';

/** What became of a column. */
export interface ColumnChange {
  /** Its type before; null if it is new. */
  from: string | null;
  to: string;
  /** Absent for a column that was added or widened. */
  kind?: ValueChange;
  /** The column that seems to have the values of one that is `renamed?`. */
  renamed_to?: string;
}

/** A change as the log of schema changes has it. */
export function toColumnChange(row: {
  from_type: string | null;
  to_type: string;
  kind: ValueChange | null;
  renamed_to: string | null;
}): ColumnChange {
  const { from_type: from, to_type: to, kind, renamed_to } = row;
  return { from, to, ...(kind === null ? {} : { kind }), ...(renamed_to === null ? {} : { renamed_to }) };
}

/** Such as `new, text`, `integer → text` or `no values any more`. */
export function formatColumnChange({ from, to, kind, renamed_to: renamedTo }: ColumnChange): string {
  if (kind === 'back') return 'has values again';
  if (kind !== undefined) return `no values any more${renamedTo === undefined ? '' : `, ${renamedTo} may have them`}`;
  return from === null ? `new, ${to}` : `${from} → ${to}`;
}
