import { timestampText } from '../../model/timestamp-text.ts';
import type { Column } from '../../model/table.ts';
import { visibleText } from '../../model/visible-text.ts';
import { keysOf, pathText } from '../../shape/columns/source-path.ts';
import { saveValueChanges, showsValue } from '../../state/column-values.ts';
import type { ValueChange } from '../../model/schema-change.ts';
import type { SchemaChangeRow } from '../../warehouse/own-tables.ts';
import type { RunContext } from '../run-progress.ts';
import type { Warning } from '../warnings.ts';
import { MIN_RECORDS, type EmptyColumn } from './column-presence.ts';

/** So many new and changed records without a field show that the service no longer sends it. */
const MIN_RECORDS_WITHOUT = 20;

interface GoneColumn extends EmptyColumn {
  /** New and changed records that could have a value. */
  records: number;
  renamedTo: string | null;
}

/**
 * Finds the columns that most records had a value for and that none of the run's new and changed records has one for, and
 * those whose values are back. Each is logged once; the warnings name what is gone.
 */
export async function goneColumnWarnings(context: RunContext): Promise<Warning[]> {
  const { warehouse, owned, progress } = context;
  const gone: GoneColumn[] = [];
  const back = [...progress.columns.back];
  for (const each of progress.columns.empty) {
    if (each.had === null) {
      if (each.known !== null && (await isBack(context, each))) back.push(each);
    } else if (await isGone(context, each)) {
      gone.push({ ...each, records: recordsFor(context, each), renamedTo: renamedTo(each) });
    }
  }
  if (gone.length + back.length === 0) return [];
  const rows = [
    ...gone.map((each) => logRow(context, each, each.renamedTo === null ? 'gone' : 'renamed?', each.renamedTo)),
    ...back.map((each) => logRow(context, each, 'back', null)),
  ];
  await owned.takeTurn(() => warehouse.apply(saveValueChanges(warehouse.own, rows), owned.lease()));
  return [...Map.groupBy(gone, ({ table }) => table.shape.name).values()].map(goneWarning);
}

/** A list that no record has is judged by all records, its fields by the records that have elements. */
function recordsFor({ progress }: RunContext, { table }: EmptyColumn): number {
  return table.records > 0 ? table.records : progress.columns.records;
}

function sampledFor({ table }: EmptyColumn): number {
  return table.records > 0 ? table.sampledHere : table.sampled;
}

async function isGone(context: RunContext, each: EmptyColumn): Promise<boolean> {
  const { table, known, had } = each;
  const records = recordsFor(context, each);
  if (had === null || records < MIN_RECORDS || had * 2 < sampledFor(each)) return false;
  const isStated = table.records > 0 ? each.isStated : table.isStated;
  // A column whose values were back before belongs to a field that some records never have.
  if (records >= MIN_RECORDS_WITHOUT && !isStated && known === null) return true;
  const live = liveColumn(each);
  return live !== null && !(await showsValue(context.warehouse, live.view, live.name));
}

/** The column of the live view that shows it; null if there is none. */
function liveColumn({ table: { live }, column }: EmptyColumn): { view: string; name: string } | null {
  const name = live?.names.get(visibleText(pathText(column.path)));
  return live === null || name === undefined ? null : { view: live.view, name };
}

/** Deliveries also bring values, of which a later run sees nothing: a full scan looks for them. */
async function isBack({ warehouse, progress }: RunContext, each: EmptyColumn): Promise<boolean> {
  const { known } = each;
  const live = liveColumn(each);
  if (progress.mode !== 'full' || known === null || known.kind === 'back' || live === null) return false;
  return showsValue(warehouse, live.view, live.name, known.at);
}

/**
 * The new column that seems to have the values now: it has the former values of changed records, or the same name
 * elsewhere, or holds the whole object or list in which they were.
 */
function renamedTo({ column, moves }: EmptyColumn): string | null {
  const holdsIt = ({ path }: Column): boolean => path.every((part, at) => part === column.path[at]);
  const hasItsName = ({ path }: Column): boolean => keysOf(path).at(-1) === keysOf(column.path).at(-1);
  const [best] = [...moves]
    .filter(([, { column: now, equal, other }]) => {
      return holdsIt(now) || (other === 0 && (equal >= MIN_RECORDS || hasItsName(now)));
    })
    .toSorted(([, a], [, b]) => b.equal - a.equal);
  return best?.[0] ?? null;
}

function logRow(
  { clock, owned, runId }: RunContext,
  { table, column }: EmptyColumn,
  kind: ValueChange,
  renamedTo: string | null,
): SchemaChangeRow {
  return {
    changed_at: timestampText(clock.now()),
    resource: owned.resource,
    table_name: table.shape.name,
    column_name: column.name,
    from_type: column.type,
    to_type: column.type,
    run_id: runId,
    kind,
    renamed_to: renamedTo,
  };
}

function goneWarning(columns: readonly GoneColumn[]): Warning {
  const named = columns.map((each) => {
    const name = `${each.table.shape.name}.${each.column.name}`;
    const had = `${each.had} of ${sampledFor(each)} records had one`;
    return `${name} (${had}${each.renamedTo === null ? '' : `; it may be ${each.renamedTo} now`})`;
  });
  const records = Math.max(...columns.map((each) => each.records));
  return {
    code: 'columns_gone',
    message: `none of the ${records} new and changed records has a value for ${named.join(', ')}`,
    hint: 'the copy is as the service says: compare with the documentation of the service, and use the new column in queries if there is one; sync_schema_log has an entry, and gets another one once there are values again',
  };
}
