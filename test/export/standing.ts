import { createHash } from 'node:crypto';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { expect } from 'vitest';
import type { TestDatabase } from '../support/databases.ts';
import type { OwnStage } from '../support/own-stage.ts';
import { manifestIn, parquetRows, viewRows } from './read-back.ts';

/** Paths of all files below a folder. */
export function filesBelow(folder: string): string[] {
  if (!existsSync(folder)) return [];
  return readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => path.relative(folder, path.join(entry.parentPath, entry.name)));
}

/** Every file that the manifest lists is there as it says. Returns their paths. */
export function expectWhole(folder: string): string[] {
  return manifestIn(folder).tables.flatMap(({ files, rows }) => {
    expect(files.reduce((sum, file) => sum + file.rows, 0)).toBe(rows);
    for (const { path: file, bytes, sha256 } of files) {
      const content = readFileSync(path.join(folder, file));
      expect([content.length, createHash('sha256').update(content).digest('hex')]).toEqual([bytes, sha256]);
    }
    return files.map(({ path: file }) => file);
  });
}

/** They are, nothing else is there, and what DuckDB reads of them is what the views show. */
export async function expectSnapshot(
  database: TestDatabase,
  stage: Pick<OwnStage, 'address'>,
  folder: string,
): Promise<void> {
  const listed = expectWhole(folder);
  for (const table of manifestIn(folder).tables) {
    const rows = await viewRows(database, stage.address, table);
    expect([table.name, await parquetRows(folder, table.name)]).toEqual([table.name, rows]);
  }
  expect(filesBelow(folder).toSorted()).toEqual(['manifest.json', ...listed].toSorted());
}

/** Makes so many rows of the record `a`, over two years, without the service: it would take minutes. */
export async function manyRows({ write }: Pick<OwnStage, 'write'>, count: number): Promise<void> {
  const digits = (column: string): string =>
    `substr('0000000' || CAST(${column} AS TEXT), length(CAST(${column} AS TEXT)) + 1)`;
  await write(`INSERT INTO content ("id", "_hash", "_version", "_synced_at", "day", "views", "body")
    WITH RECURSIVE numbers(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < ${count})
    SELECT 'r' || ${digits('n')}, '', 1, "_synced_at", "day", n, "body" || CAST(n AS TEXT)
    FROM numbers, content WHERE "id" = 'a'`);
}
