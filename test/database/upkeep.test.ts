import { statSync } from 'node:fs';
import Database from 'better-sqlite3';
import { describe, expect, it, onTestFinished } from 'vitest';
import type { Warehouse } from '../../src/database/warehouse.ts';
import { saveLimit } from '../../src/http/rate-limit/rate-limiter.ts';
import { rowsIn, tempWarehouse } from '../support/temp-warehouse.ts';

const SMALL_WAL = 16_000_000;

/** A warehouse with a WAL of twenty megabytes, and another program that reads it in a transaction. */
async function grown() {
  const { warehouse, file } = await tempWarehouse();
  await saveLimit(warehouse.own, '0', '', 0);
  const reader = new Database(file, { readonly: true });
  onTestFinished(() => void reader.close());
  reader.exec('BEGIN');
  reader.prepare('SELECT count(*) FROM _sync_limits').get();
  await fill(warehouse, 20);
  expect(walBytes(file)).toBeGreaterThan(SMALL_WAL);
  return { warehouse, file, reader };
}

async function fill(warehouse: Warehouse, megabytes: number): Promise<void> {
  for (let row = 0; row < megabytes; row += 1) await saveLimit(warehouse.own, `${row}`, 'x'.repeat(1_000_000), row);
}

function walBytes(file: string): number {
  return statSync(`${file}-wal`).size;
}

describe('the upkeep of a warehouse', () => {
  it('F127 T5 leaves a WAL that a reader still needs, and cuts it off when the reader is done', async () => {
    const { warehouse, file, reader } = await grown();
    await warehouse.upkeep();
    expect(walBytes(file)).toBeGreaterThan(SMALL_WAL);
    reader.exec('COMMIT');
    await warehouse.upkeep();
    expect(walBytes(file)).toBe(0);
    expect(rowsIn(file, 'SELECT total(length(state)) AS n FROM _sync_limits')).toEqual([{ n: 20_000_000 }]);
  });

  it('is done at the end of a run too, where another program stays connected', async () => {
    const { warehouse, file, reader } = await grown();
    reader.exec('COMMIT');
    await warehouse.close();
    expect(walBytes(file)).toBe(0);
  });
});
