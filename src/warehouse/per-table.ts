import type { TableShape } from '../model/table.ts';

/** Makes something once per table and keeps it: a shape is a value, so what is made for it serves as long as it stands. */
export function perTable<T>(make: (table: TableShape) => T): (table: TableShape) => T {
  const made = new WeakMap<TableShape, { it: T }>();
  return (table) => {
    let known = made.get(table);
    if (known === undefined) made.set(table, (known = { it: make(table) }));
    return known.it;
  };
}
