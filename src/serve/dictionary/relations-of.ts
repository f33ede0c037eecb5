import type { ResourceShape } from '../../model/table.ts';
import type { DictionaryRelation, DictionaryTable } from './dictionary.ts';

/** How the copied tables hang together, as the live views say; relations whose other end is not there are left out. */
export function relationsOf(
  tables: readonly DictionaryTable[],
  shapes: readonly ResourceShape[],
): DictionaryRelation[] {
  const copied = new Map(tables.filter(({ kind }) => kind === 'table').map((table) => [table.name, table]));
  const parents = new Map(
    shapes.flatMap(({ tables: [own, ...children] }) => children.map(({ name }) => [name, own?.name] as const)),
  );
  return [...copied.values()].flatMap(({ name, columns }) =>
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
