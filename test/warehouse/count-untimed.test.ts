import { expect, it, describe } from 'vitest';
import type { Column } from '../../src/model/table.ts';
import { shapeOf } from '../../src/load/prepare-page.ts';
import { DATABASES, warehouseOn } from '../support/databases.ts';
import { loading } from '../support/page-loading.ts';

describe.for(DATABASES)('rows without a time of change, on $name', (database) => {
  it('are those of which the first column that says something says no time', async () => {
    const { warehouse, write } = await warehouseOn(database);
    const { context, load } = await loading(warehouse);
    const posts = [
      '"at":"2026-01-01T00:00:00Z","said":"soon"',
      '"said":"2026-01-01"',
      '"said":"soon"',
      '"said":"soon","day":"2026-01-01"',
      '"day":"2026-01-01"',
      '"other":1',
      '"other":2',
    ];
    await load(posts.map((members, id) => `{"id":${id},"updated_at":"2026-01-01T00:00:00Z",${members}}`));
    await write(`UPDATE content SET _deleted_at = '2026-01-02 00:00:00' WHERE id = '6'`);
    const [table] = shapeOf(context.owned).tables;
    if (table === undefined) throw new Error('there is no table');
    const columns = (...names: string[]): Column[] =>
      names.flatMap((name) => table.columns.filter((column) => column.name === name));
    const count = (...names: string[]) => warehouse.countUntimed(table, columns(...names)).then(Number);
    expect(columns('at', 'said', 'day').map(({ type }) => type)).toEqual(['timestamp', 'text', 'date']);
    expect(await count('at', 'said', 'day')).toBe(3);
    expect(await count('at', 'day')).toBe(3);
    expect(await count('said', 'at')).toBe(5);
    expect(await count('at')).toBe(5);
    expect(await count()).toBe(6);
  });
});
