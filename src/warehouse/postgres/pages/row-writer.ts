import type { TableRows } from '../../../model/table.ts';
import { stampedColumns } from '../../own-columns.ts';
import type { PageRows, WrittenRecord } from '../../warehouse.ts';
import type { Step } from '../connection/batch.ts';
import { copySteps } from './encode-page.ts';
import { byIndexes, deleteStatement, jsonCell, upsertStatement } from './row-statements.ts';

/**
 * The statements that write a page, whose number does not depend on the number of rows: new rows are copied into the
 * tables, changed ones are upserted. If a transaction with the page has failed before (`isRepeated`), no row is assumed
 * to be new: another process may have written it since it was looked up.
 */
export function stepsOf(page: PageRows, isRepeated: boolean): Step[] {
  const [root] = page.rows;
  if (root === undefined || page.records.length === 0) return [];
  const mayExist = ({ version }: WrittenRecord): boolean => isRepeated || page.isRewrite === true || version > 1;
  const known = page.records.filter(mayExist);
  const changed = (): Step[] => {
    const rows = page.records.flatMap((record, index) => (mayExist(record) ? [jsonRow(root, page, index)] : []));
    const keys = known.map(({ key }) => key);
    return [
      { text: upsertStatement(root.table), values: [JSON.stringify(rows)] },
      ...page.children.map((child) => ({ text: deleteStatement(child), values: [keys] })),
    ];
  };
  return [
    ...byIndexes([...(known.length > 0 ? changed() : []), ...endVersions(page, isRepeated)]),
    ...copySteps(page, mayExist),
  ];
}

/** A row of a resource's own table, stamped. */
function jsonRow({ table, width, cells }: TableRows, page: PageRows, index: number): unknown[] {
  const [from, keys] = [index * width, table.key.length];
  const record = page.records[index];
  if (record === undefined) throw new Error('a row without its record');
  const stamps = stampedColumns(table).map(({ stamp }) => stamp(record, page));
  const source = cells.slice(from + keys, from + width);
  return [...cells.slice(from, from + keys), ...stamps, ...source].map(jsonCell);
}

const CLOSE = `UPDATE "_sync_versions" AS v SET "valid_to" = $2 FROM unnest($3::text[], $4::bigint[]) AS old("id", "version")
  WHERE v."resource" = $1 AND v."id" = old."id" AND v."version" = old."version"`;
const DROP = `DELETE FROM "_sync_versions" WHERE "resource" = $1 AND "id" = ANY($2)`;
const DROP_SAME = `DELETE FROM "_sync_versions" AS v USING unnest($2::text[], $3::bigint[]) AS same("id", "version")
  WHERE v."resource" = $1 AND v."id" = same."id" AND v."version" = same."version"`;

/**
 * Closes or drops the versions before those of the written records, as the history policy says; with `isRepeated` also
 * those that are there although they were thought to be new.
 */
function endVersions(page: PageRows, isRepeated: boolean): Step[] {
  const { resource, history, requestedAt, records } = page;
  if (history === 'none') return [];
  const replaced = records.filter(({ version }) => version > 1);
  const keys = keysOf(replaced);
  const before = versionsOf(replaced).map((version) => version - 1);
  const end =
    history === 'all'
      ? { text: CLOSE, values: [resource, requestedAt, keys, before] }
      : { text: DROP, values: [resource, keys] };
  return [
    ...(isRepeated ? [{ text: DROP_SAME, values: [resource, keysOf(records), versionsOf(records)] }] : []),
    ...(replaced.length === 0 ? [] : [end]),
  ];
}

function keysOf(records: readonly WrittenRecord[]): string[] {
  return records.map(({ key }) => key);
}

function versionsOf(records: readonly WrittenRecord[]): number[] {
  return records.map(({ version }) => version);
}
