import type { PlannedView } from '../planned-view.ts';
import type { View, ViewColumn } from '../view.ts';
import type { ViewedResource, ViewModel } from '../view-model.ts';
import { finalColumn } from '../report-windows.ts';
import { recordColumns } from './history-columns.ts';
import { ownColumn } from './own-column.ts';

/** Columns of ours, which a field of the source does not take the name of. */
const OURS: ReadonlySet<string> = new Set(['version', 'valid_from', 'valid_to', 'is_current', 'is_deleted']);

/** `<resource>_history` for resources of which all versions are kept: what a record was, and from when to when. */
export function historyViews(model: ViewModel, above: ReadonlyMap<string, PlannedView>): View[] {
  return keepingHistory(model).flatMap((resource) => {
    const [own] = resource.tables;
    const live = own === undefined ? undefined : above.get(`${own.name}_live`);
    if (own === undefined || live === undefined) return [];
    const key = keyColumn(model, resource, live);
    const { dialect } = model;
    return [
      {
        name: `${resource.resource}_history`,
        resource: resource.resource,
        description: `Every version of each ${resource.resource} record, typed as in ${live.name}: one row from valid_from to valid_to.`,
        columns: [key, ...ourColumns(model), ...recordColumns(model, resource, live), ...finalColumns(model, resource)],
        from: `${dialect.bodies.from} WHERE v.${dialect.id('resource')} = ${dialect.literal(resource.resource)}`,
        asOf: `${resource.resource}_as_of`,
      },
    ];
  });
}

/** `is_final` of a version is that of its record's row: the day is part of the key. */
function finalColumns(model: ViewModel, resource: ViewedResource): ViewColumn[] {
  const [own] = resource.tables;
  const id = (name: string): string => model.dialect.id(name);
  const row = ` FROM ${id(own?.name ?? '')} AS r WHERE r.${id(own?.key[0] ?? '')} = v.${id('id')}`;
  return finalColumn(model, resource, 'r.').map((column) =>
    Object.assign(column, { sql: `(SELECT ${column.sql}${row})` }),
  );
}

export function keepingHistory({ resources }: ViewModel): ViewedResource[] {
  return resources.filter(({ profile }) => profile.history === 'all');
}

function keyColumn({ dialect }: ViewModel, { tables }: ViewedResource, live: PlannedView): ViewColumn {
  const name = tables[0]?.key[0] ?? '';
  const description = live.columns.find((column) => column.name === name)?.description ?? null;
  // A key that is called as a column of ours.
  const free = OURS.has(name) ? `source_${name}` : name;
  return ownColumn(free, 'text', `v.${dialect.id('id')}`, description);
}

function ourColumns({ dialect }: ViewModel): ViewColumn[] {
  const [since, until] = [`v.${dialect.id('valid_from')}`, `v.${dialect.id('valid_to')}`];
  return [
    ownColumn('version', 'integer', `v.${dialect.id('version')}`, 'Which version of the record it is, from 1.'),
    ownColumn('valid_from', 'timestamp', since, 'From when on the record was so: when it was asked for.'),
    ownColumn('valid_to', 'timestamp', until, 'Until when; null for the latest version.'),
    ownColumn('is_current', 'boolean', `(${until} IS NULL)`, 'True for the latest version.'),
    ownColumn(
      'is_deleted',
      'boolean',
      `(v.${dialect.id('op')} = 'delete')`,
      'True for a version that says that the record is gone: all else is null.',
    ),
  ];
}
