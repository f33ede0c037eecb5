import type { TableShape } from '../model/table.ts';
import { visibleText } from '../model/visible-text.ts';
import { pathText } from '../shape/columns/source-path.ts';
import { publishedColumn } from './history/published.ts';
import { finalColumn } from './report-windows.ts';
import type { View, ViewColumn } from './view.ts';
import type { ViewedResource, ViewModel } from './view-model.ts';

/** `<table>_live` for each table and child table: the live rows, with the source's columns. */
export function liveViews(model: ViewModel): View[] {
  return model.resources.flatMap((resource) =>
    resource.tables.map((table) => ({
      name: `${table.name}_live`,
      resource: resource.resource,
      description: descriptionOf(resource, table),
      columns: liveColumns(model, resource, table),
      from: fromOf(model, resource, table),
    })),
  );
}

function descriptionOf({ resource, profile }: ViewedResource, { path }: TableShape): string {
  const ofList = path.length > 0 ? profile.fields[pathText(path)]?.description : undefined;
  if (ofList !== undefined) return ofList;
  if (path.length > 0)
    return `Lists ${visibleText(pathText(path))} within the live ${resource} records, one element a row.`;
  return profile.description ?? `The ${resource} records of the service that are not deleted, one a row.`;
}

/** The alias of the view's own table. */
const ROW = 'r';
/** Of the parent's, which a query that does not ask for it never reads: it is joined by its key. */
const PARENT = 'p';

function liveColumns(model: ViewModel, resource: ViewedResource, table: TableShape): ViewColumn[] {
  const { dialect } = model;
  const comments = resource.comments.get(table.name);
  const column = (stored: string, type: ViewColumn['type'], source: string | null, alias = ROW): ViewColumn => ({
    name: stored,
    type,
    sql: `${alias}.${dialect.id(stored)}`,
    description: comments?.get(stored) ?? null,
    source,
    references: referenceOf(model, table, stored),
  });
  const keys = table.key.map((name, at) => column(name, at === 0 ? 'text' : 'integer', null));
  const stamp = column('_synced_at', 'timestamp', null, table.path.length === 0 ? ROW : PARENT);
  const sources = table.columns.map(({ name, type, path }) => column(name, type, visibleText(pathText(path))));
  const known =
    table.path.length === 0
      ? [...publishedColumn(model, resource, `${ROW}.`), ...finalColumn(model, resource, `${ROW}.`)]
      : [];
  return [...keys, { ...stamp, description: SYNCED_AT }, ...sources, ...known];
}

const SYNCED_AT = 'When the service was asked for this version of the record, UTC.';

function referenceOf({ relations, resources }: ViewModel, table: TableShape, name: string): string | null {
  const relation = relations.find(({ from }) => from.table.name === table.name && from.column === name);
  if (relation !== undefined) return `${relation.to.table.name}.${relation.to.column}`;
  if (table.path.length === 0 || table.key[0] !== name) return null;
  const own = resources.find(({ tables }) => tables.some((each) => each.name === table.name))?.tables[0];
  return own === undefined ? null : `${own.name}.${own.key[0] ?? ''}`;
}

/** Child rows of a deleted record are gone. */
function fromOf({ dialect }: ViewModel, { tables }: ViewedResource, table: TableShape): string {
  const [own] = tables;
  const from = ` FROM ${dialect.id(table.name)} AS ${ROW}`;
  if (own === undefined || own === table) return `${from} WHERE ${ROW}.${dialect.id('_deleted_at')} IS NULL`;
  const [parentKey = '', childKey = ''] = [own.key[0], table.key[0]];
  return `${from} LEFT JOIN ${dialect.id(own.name)} AS ${PARENT} ON ${PARENT}.${dialect.id(parentKey)} = ${ROW}.${dialect.id(childKey)}`;
}
