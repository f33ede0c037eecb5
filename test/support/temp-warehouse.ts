import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import Database from 'better-sqlite3';
import { onTestFinished } from 'vitest';
import type { Clock } from '../../src/model/clock.ts';
import { systemClock } from '../../src/observe/system-clock.ts';
import { openWarehouse } from '../../src/database/databases.ts';
import type { Warehouse } from '../../src/database/warehouse.ts';

/** A folder that is gone when the test is over. */
export function tempFolder(): string {
  const folder = mkdtempSync(path.join(tmpdir(), 'content-sync-warehouse-'));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  return folder;
}

/** A SQLite warehouse of its own, closed and gone when the test is over. */
export async function tempWarehouse(clock: Clock = systemClock): Promise<{ warehouse: Warehouse; file: string }> {
  const file = path.join(tempFolder(), 'blog.db');
  return { warehouse: await openFor(file, clock), file };
}

/** Opens the warehouse in `file`, until the test is over at the latest. */
export async function openFor(file: string, clock: Clock = systemClock): Promise<Warehouse> {
  const warehouse = await openWarehouse(`sqlite:${file}`, clock);
  onTestFinished(() => warehouse.close());
  return warehouse;
}

/** Opens the file as any other program would, gives it to `use` and closes it again. */
export function asOther<T>(file: string, use: (db: Database.Database) => T): T {
  const db = new Database(file, { timeout: 5_000 });
  try {
    return use(db);
  } finally {
    db.close();
  }
}

/** All rows that a query finds, as another program reads them; integers beyond 32 bit stay exact. */
export function rowsIn(file: string, query: string, ...parameters: unknown[]): Record<string, unknown>[] {
  return asOther(file, (db) =>
    db
      .prepare<unknown[], Record<string, unknown>>(query)
      .safeIntegers()
      .all(...parameters),
  );
}
