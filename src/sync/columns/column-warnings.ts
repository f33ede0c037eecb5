import type { ColumnType } from '../../model/vocabulary.ts';
import type { ResourceContext } from '../resource-context.ts';
import type { Warning } from '../warnings.ts';

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
