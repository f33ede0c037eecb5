import type { ResourceShape } from '../../model/table.ts';
import type { DictionaryRelation, DictionaryTable } from './dictionary.ts';

/** The relations between the copied tables, by the columns of their live views; those to a missing table are left out. */
export function relationsOf(
  tables: readonly DictionaryTable[],
  shapes: readonly ResourceShape[],
): DictionaryRelation[] {
  const live = tables.filter(({ kind }) => kind === 'live');
  const copied = new Map(live.flatMap((view) => (view.table === null ? [] : [[view.table, view] as const])));
  const parents = new Map(
    shapes.flatMap(({ tables: [own, ...children] }) => children.map(({ name }) => [name, own?.name] as const)),
  );
  return [...copied].flatMap(([name, { columns }]) =>
    columns.flatMap((column): DictionaryRelation[] => {
      const [table = '', to = ''] = column.references?.split('.') ?? [];
      if (!(copied.get(table)?.columns.some((each) => each.name === to) ?? false)) return [];
      const isChild = parents.get(name) === table && columns[0] === column;
      const isWholeKey = column.isKey && columns.filter(({ isKey }) => isKey).length === 1;
      const kind = isChild ? 'child' : isWholeKey ? 'key' : 'reference';
      return [{ from: { table: name, column: column.name }, to: { table, column: to }, kind }];
    }),
  );
}
