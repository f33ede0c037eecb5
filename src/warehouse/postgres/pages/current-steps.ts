import { escapeIdentifier } from 'pg';
import type { TableShape } from '../../../model/table.ts';
import { oncePer } from '../../once-per.ts';
import { pageOutdated } from '../../page-outdated.ts';
import type { PageRows } from '../../warehouse.ts';
import type { Step } from '../connection/batch.ts';
import { refusedWith, refusing } from '../connection/refusing.ts';

/** Nothing where nobody else writes the resource: then `growths` is not given. */
export function currentSteps(page: PageRows, growths: number | undefined): Step[] {
  return growths === undefined ? [] : [currentStep(page, growths)];
}

/**
 * Sees that the rows of a page are still those that it was compared with, and the tables those that it was made for, and
 * holds both until the transaction is over. What is taken for new and is there by now fails by its key. In the order of
 * their keys, so that two pages do not wait for each other in a circle.
 */
function currentStep({ resource, rows, records }: PageRows, growths: number): Step {
  const keys = records.map(({ key }) => key);
  const versions = records.map(({ version }) => version - 1);
  const [root] = rows;
  return {
    text: root === undefined || keys.length === 0 ? TABLES : textFor(root.table),
    values: root === undefined || keys.length === 0 ? [growths] : [growths, keys, versions],
    explain: (error) => (refusedWith(error) === null ? error : pageOutdated(resource)),
  };
}

const GROWN = '(SELECT "growths"::float8 FROM "_sync_growth" WHERE "id" = 1 FOR SHARE)';
const REFUSING = refusing('"changed" = 0 AND "grown" = $1', '"grown"::text');
const TABLES = `SELECT ${REFUSING} FROM (SELECT 0 AS "changed", ${GROWN} AS "grown") AS "found"`;

const textFor = oncePer((table: TableShape) => {
  const key = escapeIdentifier(table.key[0] ?? '');
  return `WITH "_held" AS MATERIALIZED (
      SELECT "_there".${key} AS "_key", "_there"."_version" AS "_at" FROM ${escapeIdentifier(table.name)} AS "_there"
      WHERE "_there".${key} = ANY($2::text[]) ORDER BY 1 FOR UPDATE)
    SELECT ${REFUSING} FROM (
      SELECT (SELECT count(*)::float8 FROM "_held" JOIN unnest($2::text[], $3::bigint[]) AS "_known" ("_key", "_at") USING ("_key")
        WHERE "_held"."_at" <> "_known"."_at") AS "changed", ${GROWN} AS "grown") AS "found"`;
});
