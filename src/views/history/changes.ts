import type { ColumnType } from '../../model/vocabulary.ts';
import type { PlannedView } from '../planned-view.ts';
import type { ViewModel } from '../view-model.ts';
import { ownColumn, type View, type ViewColumn } from '../view.ts';
import { keepingHistory } from './history.ts';

/** `<resource>_changes`: each field that a version has changed, as texts, with deletes and restores. */
export function changesViews(model: ViewModel, above: ReadonlyMap<string, PlannedView>): View[] {
  return keepingHistory(model).flatMap(({ resource }) => {
    const history = above.get(`${resource}_history`);
    if (history === undefined) return [];
    const [key] = history.columns;
    const { dialect } = model;
    const column = (name: string, type: ColumnType, description: string): ViewColumn =>
      ownColumn(name, type, `c.${dialect.id(name)}`, description);
    // What stands in each part is of another type.
    const text = (name: string, description: string): ViewColumn =>
      ownColumn(name, 'text', dialect.declared(`c.${dialect.id(name)}`, 'text'), description);
    return [
      {
        name: `${resource}_changes`,
        resource,
        description: `What each version of a ${resource} record has changed: one row a field. The first version is no change.`,
        columns: [
          column(key?.name ?? '', 'text', key?.description ?? ''),
          column('version', 'integer', 'The version that has changed it.'),
          column('changed_at', 'timestamp', 'When the service was asked for that version.'),
          text('field', 'The column; _deleted_at where the record was deleted or came back.'),
          text('old_value', 'What it was, as a text; a list as JSON.'),
          text('new_value', 'What it is from then on.'),
        ],
        from: ` FROM (${[edits, deletes, restores].map((part) => part(model, history)).join(' UNION ALL ')}) AS c`,
      },
    ];
  });
}

type Part = (model: ViewModel, history: PlannedView) => string;

/** Versions that differ from the one before, also from the one before a delete. */
const edits: Part = ({ dialect }, history) => {
  const id = (name: string): string => dialect.id(name);
  const fields = comparedColumns(history).map(({ field, shown }) => ({
    field,
    before: dialect.text(`o.${id(shown.name)}`, shown.type),
    after: dialect.text(`n.${id(shown.name)}`, shown.type),
  }));
  const rows = dialect.differing(fields);
  const key = id(history.columns[0]?.name ?? '');
  const last = `SELECT max(e.version) FROM ${id('_sync_versions')} AS e WHERE e.resource = ${dialect.literal(history.resource ?? '')} AND e.id = n.${key} AND e.version < n.version AND e.op = 'upsert'`;
  return `SELECT n.${key}, n.version AS version, n.valid_from AS changed_at, ${rows.field} AS field, ${rows.before} AS old_value, ${rows.after} AS new_value FROM ${id(history.name)} AS n JOIN ${id(history.name)} AS o ON o.${key} = n.${key} AND o.version = (${last})${rows.join} WHERE NOT n.is_deleted AND ${rows.where}`;
};

/** The fields of the source; of one that has its exact text in a second column, that text. */
function comparedColumns({ columns }: PlannedView): { field: string; shown: ViewColumn }[] {
  const fields = Map.groupBy(
    columns.filter(({ source }) => source !== null),
    ({ source }) => source,
  );
  return [...fields.values()].flatMap(([first, second]) =>
    first === undefined ? [] : [{ field: first.name, shown: second ?? first }],
  );
}

const deletes: Part = ({ dialect }, history) => {
  const id = (name: string): string => dialect.id(name);
  const key = id(history.columns[0]?.name ?? '');
  const none = dialect.converted('NULL', 'text', 'text');
  return `SELECT n.${key}, n.version, n.valid_from, ${MARK}, ${none}, ${dialect.text('n.valid_from', 'timestamp')} FROM ${id(history.name)} AS n WHERE n.is_deleted`;
};

const restores: Part = ({ dialect }, history) => {
  const id = (name: string): string => dialect.id(name);
  const key = id(history.columns[0]?.name ?? '');
  const none = dialect.converted('NULL', 'text', 'text');
  return `SELECT n.${key}, n.version, n.valid_from, ${MARK}, ${dialect.text('o.valid_from', 'timestamp')}, ${none} FROM ${id(history.name)} AS n JOIN ${id(history.name)} AS o ON o.${key} = n.${key} AND o.version = n.version - 1 WHERE o.is_deleted AND NOT n.is_deleted`;
};

const MARK = "'_deleted_at'";
