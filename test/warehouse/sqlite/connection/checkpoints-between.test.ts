import { statSync } from 'node:fs';
import path from 'node:path';
import Database from 'better-sqlite3';
import { describe, expect, it, onTestFinished } from 'vitest';
import { checkpointsBetween } from '../../../../src/warehouse/sqlite/connection/checkpoints-between.ts';
import { configureWarehouse } from '../../../../src/warehouse/sqlite/connection/configure.ts';
import { tempFolder } from '../../../support/temp-warehouse.ts';

/** A connection of a thread that writes, and a table to fill. */
function opened() {
  const file = path.join(tempFolder(), 'warehouse.db');
  const db = new Database(file);
  onTestFinished(() => void db.close());
  configureWarehouse(db);
  const checkpoint = checkpointsBetween(db);
  db.exec('CREATE TABLE filled (bytes BLOB)');
  const fill = db.prepare('INSERT INTO filled VALUES (zeroblob(1000000))');
  return { file, db, checkpoint, fill: (megabytes: number) => times(megabytes, () => fill.run()) };
}

function times(count: number, work: () => void): void {
  for (let at = 0; at < count; at += 1) work();
}

function bytesOf(file: string): number {
  return statSync(file).size;
}

describe('checkpoints between transactions', () => {
  it('copy nothing of a small WAL, and all of a large one, which no commit has done before', () => {
    const { file, checkpoint, fill } = opened();
    const empty = bytesOf(file);
    fill(2);
    checkpoint();
    expect(bytesOf(file)).toBe(empty);
    fill(30);
    expect(bytesOf(file)).toBe(empty);
    checkpoint();
    expect(bytesOf(file)).toBeGreaterThan(32_000_000);
  });

  it('keep the WAL small while pages come', () => {
    const { file, checkpoint, fill } = opened();
    times(40, () => {
      fill(1);
      checkpoint();
    });
    expect(bytesOf(`${file}-wal`)).toBeLessThan(8_000_000);
    expect(bytesOf(file)).toBeGreaterThan(32_000_000);
  });

  it('leave what a reader still needs, and copy the rest when it is done', () => {
    const { file, checkpoint, fill } = opened();
    fill(1);
    const reader = new Database(file, { readonly: true });
    onTestFinished(() => void reader.close());
    reader.exec('BEGIN');
    reader.prepare('SELECT count(*) FROM filled').get();
    fill(20);
    checkpoint();
    expect(bytesOf(file)).toBeLessThan(4_000_000);
    reader.exec('COMMIT');
    checkpoint();
    expect(bytesOf(file)).toBeGreaterThan(20_000_000);
  });

  it('are none on a connection that is closed', () => {
    const { db, checkpoint, fill } = opened();
    fill(20);
    db.close();
    expect(checkpoint).not.toThrow();
  });
});
