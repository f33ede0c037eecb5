import type { SchemaChangeRow } from '../database/own-tables.ts';
import { saveValueChanges, showsValue } from '../database/state/stored-rows.ts';
import type { Column, ValueChange } from '../model/table.ts';
import { timestampText } from '../model/timestamp-text.ts';
import { visibleText } from '../model/visible-text.ts';
import type { ColumnType } from '../model/vocabulary.ts';
import { keysOf, pathText } from '../rows/columns/column-name.ts';
import { type EmptyColumn, MIN_RECORDS } from './column-presence.ts';
import type { Warning } from './report.ts';
import type { ResourceContext } from './resource-context.ts';
import type { RunContext } from './run-progress.ts';

/** New and changed records without a field that show that the service no longer sends it. */
const MIN_RECORDS_WITHOUT = 20;

interface GoneColumn extends EmptyColumn {
  /** New and changed records that could have a value. */
  records: number;
  renamedTo: string | null;
}

/**
 * Finds the columns that most records had a value for and that no new or changed record of the run has one for, and
 * those whose values are back. Each is logged once; the warnings name the columns.
 */
export async function warnOfGoneColumns(context: RunContext): Promise<void> {
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
  if (gone.length + back.length === 0) return;
  const rows = [
    ...gone.map((each) => logRow(context, each, each.renamedTo === null ? 'gone' : 'renamed?', each.renamedTo)),
    ...back.map((each) => logRow(context, each, 'back', null)),
  ];
  await owned.takeTurn(() => warehouse.apply(saveValueChanges(warehouse.own, rows), owned.lease()));
  progress.warnings.push(...[...Map.groupBy(gone, ({ table }) => table.shape.name).values()].map(goneWarning));
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

/** The column of the live view that shows it; null if none exists. */
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

/** Warns of columns that became texts in this run, and of those of the resource's views that hide values. */
export async function columnWarnings(context: ResourceContext): Promise<Warning[]> {
  return [...(await newTexts(context)), ...(await hiddenValues(context))];
}

/** Types whose values are added up, or compared otherwise than texts are. */
const COMPARED: ReadonlySet<ColumnType> = new Set(['boolean', 'integer', 'double', 'numeric', 'date', 'timestamp']);

/** Once, by the run in which it happened; not of columns that came in the same run. */
async function newTexts({ warehouse, owned, runId, profile }: ResourceContext): Promise<Warning[]> {
  const changes = await warehouse.own
    .selectFrom('_sync_schema_changes')
    .select(['table_name', 'column_name', 'from_type', 'to_type'])
    .where('run_id', '=', runId)
    .where('resource', '=', owned.resource)
    .execute();
  const place = (change: (typeof changes)[number]): string => `${change.table_name}.${change.column_name}`;
  const isNew = new Set(changes.filter(({ from_type }) => from_type === null).map(place));
  return changes.flatMap((change): Warning[] => {
    const { from_type: from, to_type: to } = change;
    const isText = (to === 'text' || to === 'json') && from !== null && COMPARED.has(from);
    // References become texts because keys are.
    if (!isText || isNew.has(place(change)) || profile.references.includes(place(change))) return [];
    return [
      {
        code: 'column_is_text',
        message: `${place(change)} was ${from} and holds texts from now on, because of a value that is none`,
        hint: `queries that compare its values or add them up need a CAST; if the value is a mistake, correct it at the service, and run content-sync rebuild ${owned.resource}, then content-sync rebuild ${owned.resource} --drop-views`,
      },
    ];
  });
}

/** Counts the values that views do not show; reads their tables. */
async function hiddenValues({ warehouse, owned }: ResourceContext): Promise<Warning[]> {
  const { dialect } = warehouse;
  const warnings: Warning[] = [];
  for (const { view, resource, by, query, columns } of owned.heldViews) {
    if (resource !== owned.resource) continue;
    for (const { name, type, needs } of columns) {
      const value = `w.${dialect.id(name)}`;
      const shown = dialect.converted(dialect.converted(value, needs, type), type, needs);
      const hidden = await warehouse.selectCount(
        `SELECT count(${value}) - count(CASE WHEN ${shown} = ${value} THEN 1 END) FROM (${query}) AS w`,
      );
      if (hidden > 0) warnings.push(heldView(`${view}.${name}`, { type, needs, by, hidden }));
    }
  }
  return warnings;
}

function heldView(
  column: string,
  { type, needs, by, hidden }: { type: string; needs: string; by: string; hidden: number },
): Warning {
  const values = hidden === 1 ? '1 value' : `${hidden} values`;
  return {
    code: 'view_held',
    message: `${column} still has the type ${type} and does not show ${values} of type ${needs}: ${by} depends on it and cannot be made again with that type`,
    hint: `drop it, run content-sync sync, and make it again to fit; or let content-sync rebuild --drop-views drop it, which prints its definition`,
  };
}
