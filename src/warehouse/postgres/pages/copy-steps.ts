import { escapeIdentifier } from 'pg';
import type { TableShape } from '../../../model/table.ts';
import { oncePer } from '../../once-per.ts';
import type { Step } from '../connection/batch.ts';
import { errorCode } from '../connection/errors.ts';
import { refusedWith, refusing } from '../connection/refusing.ts';
import { textArray } from '../connection/text-array.ts';
import { TYPE_NUMBERS } from './copy-binary.ts';
import type { EncodedPage } from './encode-page.ts';
import { insertedColumns } from './inserted-columns.ts';
import { copyStatement } from './row-statements.ts';

/** Thrown if columns have other types than we gave them: somebody has changed a table of ours. */
export class OtherTypes extends Error {}

/**
 * Returns the steps that copy an encoded page into the tables. A field of the binary format says nothing of its type: so
 * the columns of its tables are looked at behind it, in the same transaction.
 */
export function createCopySteps(): (page: EncodedPage) => Step[] {
  const textInto = oncePer(copyStatement);
  const binaryInto = oncePer((table: TableShape) => `${copyStatement(table)} ${BINARY}`);
  const looked = typesSteps();

  return ({ rows, versions }) => [
    ...rows.map(({ table, isBinary, data }) =>
      isBinary ? { text: binaryInto(table), data, explain: asOtherTypes } : { text: textInto(table), data },
    ),
    ...looked(rows.flatMap(({ table, isBinary }) => (isBinary ? [table] : []))),
    // Of a table of ours alone, whose columns are as our migrations made them.
    ...versions.map(({ isBinary, data }) => ({ text: isBinary ? `${VERSIONS} ${BINARY}` : VERSIONS, data })),
  ];
}

const BINARY = '(FORMAT binary)';
const VERSIONS = `COPY "_sync_versions" ("resource", "id", "version", "valid_from", "op", "hash", "body") FROM STDIN`;

/**
 * After the rows were copied, which nobody can change the tables from then on: whatever they did before shows here. Most
 * pages write the same tables as the page before.
 */
function typesSteps(): (tables: readonly TableShape[]) => Step[] {
  let last: { tables: readonly TableShape[]; step: Step } | null = null;
  return (tables) => {
    if (tables.length === 0) return [];
    const isSame = last?.tables.length === tables.length && last.tables.every((table, at) => table === tables[at]);
    if (last === null || !isSame) last = { tables, step: typesStep(tables) };
    return [last.step];
  };
}

function typesStep(tables: readonly TableShape[]): Step {
  const expected = tables.flatMap((table, index) =>
    insertedColumns(table).map(({ name, kind }) => `${index + 1} ${TYPE_NUMBERS[kind]} ${name}`),
  );
  return {
    text: TYPES,
    values: [textArray(tables.map(({ name }) => escapeIdentifier(name))), textArray(expected)],
    explain: (error) => (refusedWith(error) === null ? error : otherTypes()),
  };
}

/** Of columns: the place of the table, the number of the type, and the name. */
const TYPES = `SELECT ${refusing('count(*) = cardinality($2::text[])', 'count(*)::text')} FROM pg_catalog.pg_attribute
  WHERE attrelid = ANY ($1::text[]::regclass[])
    AND (array_position($1::text[]::regclass[], attrelid) || ' ' || atttypid || ' ' || attname) = ANY ($2::text[])`;

/** What cannot be read as the type that a column has by now, or has another length. */
function asOtherTypes(error: Error): Error {
  return /^(?:22|08P01)/.test(errorCode(error)) ? otherTypes() : error;
}

function otherTypes(): OtherTypes {
  return new OtherTypes('columns of a table of ours have other types than we gave them');
}
