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

/** Two columns of the log of schema changes, without those that are null. */
export function toValueChange(row: {
  kind: ValueChange | null;
  renamed_to: string | null;
}): Pick<ColumnChange, 'kind' | 'renamed_to'> {
  const { kind, renamed_to } = row;
  return { ...(kind === null ? {} : { kind }), ...(renamed_to === null ? {} : { renamed_to }) };
}

/** Such as `new, text`, `integer → text` or `no values any more`. */
export function formatColumnChange({ from, to, kind, renamed_to: renamedTo }: ColumnChange): string {
  if (kind === 'back') return 'has values again';
  if (kind !== undefined) return `no values any more${renamedTo === undefined ? '' : `, ${renamedTo} may have them`}`;
  return from === null ? `new, ${to}` : `${from} → ${to}`;
}
