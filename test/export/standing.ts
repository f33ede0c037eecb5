import { createHash } from 'node:crypto';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { expect } from 'vitest';
import type { TestDatabase } from '../support/databases.ts';
import type { OwnStage } from '../support/own-stage.ts';
import type { OwnRecord } from '../support/record-service.ts';
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

/** A record a month, of which `manyRows` makes more. */
export function monthly(body: string): OwnRecord[] {
  return Array.from({ length: 10 }, (_, at) => {
    const month = String(at + 1).padStart(2, '0');
    return { id: `m${month}`, day: `2024-${month}-15`, views: 1, body };
  });
}

/** Makes so many rows more of the few that there are, without the service: it would take minutes. */
export async function manyRows({ rows, write }: Pick<OwnStage, 'rows' | 'write'>, count: number): Promise<void> {
  const few = await rows("SELECT id FROM content WHERE id NOT LIKE 'r%'");
  const number = "substr('0000000' || CAST(n AS TEXT), length(CAST(n AS TEXT)) + 1)";
  await write(`INSERT INTO content ("id", "_hash", "_version", "_synced_at", "day", "views", "body")
    WITH RECURSIVE numbers(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < ${count / few.length})
    SELECT 'r' || ${number} || "id", '', 1, "_synced_at", "day", n, "body" || CAST(n AS TEXT)
    FROM numbers, content WHERE "id" NOT LIKE 'r%'`);
}
