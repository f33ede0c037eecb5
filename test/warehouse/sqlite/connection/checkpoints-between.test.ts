import { once } from 'node:events';
import { statSync } from 'node:fs';
import path from 'node:path';
import { setImmediate } from 'node:timers/promises';
import type { Worker } from 'node:worker_threads';
import Database from 'better-sqlite3';
import { describe, expect, it, onTestFinished, vi } from 'vitest';
import { checkpointsBetween } from '../../../../src/warehouse/sqlite/connection/checkpoints-between.ts';
import { configureWarehouse } from '../../../../src/warehouse/sqlite/connection/configure.ts';
import { tempFolder } from '../../../support/temp-warehouse.ts';

/** A connection of a thread that writes, a table to fill, and the threads that were begun beside. */
function opened(room = Number.MAX_SAFE_INTEGER) {
  const file = path.join(tempFolder(), 'warehouse.db');
  const db = new Database(file);
  onTestFinished(() => void db.close());
  configureWarehouse(db);
  const threads: Worker[] = [];
  const note = (worker: Worker): void => void threads.push(worker);
  process.on('worker', note);
  onTestFinished(() => void process.off('worker', note));
  const checkpoints = checkpointsBetween(db, () => room);
  onTestFinished(() => checkpoints.end());
  db.exec('CREATE TABLE filled (bytes BLOB)');
  const fill = db.prepare('INSERT INTO filled VALUES (zeroblob(1000000))');
  return { file, db, checkpoints, threads, fill: (megabytes: number) => times(megabytes, () => fill.run()) };
}

function times(count: number, work: () => void): void {
  for (let at = 0; at < count; at += 1) work();
}

function bytesOf(file: string): number {
  return statSync(file).size;
}

/** Threads take as long to begin as the machine likes. */
const BESIDE = { timeout: 20_000, interval: 1 };

describe('checkpoints between transactions', () => {
  it('copy nothing of a small WAL, and all of a larger one beside, which no commit has done before', async () => {
    const { file, checkpoints, threads, fill } = opened();
    const empty = bytesOf(file);
    fill(2);
    checkpoints.look();
    expect(bytesOf(file)).toBe(empty);
    fill(18);
    expect(bytesOf(file)).toBe(empty);
    await setImmediate();
    expect(threads).toHaveLength(0);
    checkpoints.look();
    // By nobody but the thread, which has not even begun.
    expect(bytesOf(file)).toBe(empty);
    await vi.waitFor(() => expect(bytesOf(file)).toBeGreaterThan(20_000_000), BESIDE);
    expect(threads).toHaveLength(1);
  });

  it('are made at once where the volume has little room', async () => {
    const { file, checkpoints, threads, fill } = opened(500_000_000);
    fill(5);
    checkpoints.look();
    expect(bytesOf(file)).toBeGreaterThan(5_000_000);
    for (let at = 0; at < 10; at += 1) {
      fill(5);
      checkpoints.look();
    }
    expect(bytesOf(`${file}-wal`)).toBeLessThan(8_000_000);
    await setImmediate();
    expect(threads).toHaveLength(0);
  });

  it('are made at once where the thread beside does not come to an end of the WAL', () => {
    const { file, checkpoints, fill } = opened();
    // Its answer to the first question is never read: that takes a turn of the loop.
    let written = 0;
    while (written < 2 * bytesOf(`${file}-wal`) + 32_000_000 && written < 500_000_000) {
      fill(1);
      written += 1_000_000;
      checkpoints.look();
    }
    expect(written).toBeLessThan(500_000_000);
  });

  it('begin the WAL anew while pages come', async () => {
    const { file, checkpoints, fill } = opened();
    let written = 0;
    await vi.waitFor(() => {
      fill(1);
      written += 1_000_000;
      checkpoints.look();
      expect(written).toBeGreaterThan(2 * bytesOf(`${file}-wal`) + 32_000_000);
    }, BESIDE);
  });

  it('leave what a reader still needs, and copy the rest when it is done', async () => {
    const { file, checkpoints, fill } = opened();
    fill(1);
    const reader = new Database(file, { readonly: true });
    onTestFinished(() => void reader.close());
    reader.exec('BEGIN');
    reader.prepare('SELECT count(*) FROM filled').get();
    fill(20);
    for (let at = 0; at < 50; at += 1) {
      checkpoints.look();
      await setImmediate();
    }
    expect(bytesOf(file)).toBeLessThan(4_000_000);
    reader.exec('COMMIT');
    await vi.waitFor(() => {
      checkpoints.look();
      expect(bytesOf(file)).toBeGreaterThan(20_000_000);
    }, BESIDE);
  });

  it('are made here once the thread beside has died', async () => {
    const { file, checkpoints, threads, fill } = opened();
    fill(10);
    checkpoints.look();
    // Node tells of it a moment later.
    await setImmediate();
    await threads[0]?.terminate();
    fill(10);
    checkpoints.look();
    expect(bytesOf(file)).toBeGreaterThan(20_000_000);
    expect(threads).toHaveLength(1);
  });

  it('leave no connection behind at their end', async () => {
    const { file, db, checkpoints, threads, fill } = opened();
    fill(10);
    checkpoints.look();
    await setImmediate();
    checkpoints.end();
    const [thread] = threads;
    if (thread === undefined) throw new Error('no thread was begun');
    await once(thread, 'exit');
    expect(bytesOf(file)).toBeGreaterThan(10_000_000);
    // Whoever is the last to close removes the WAL.
    db.close();
    expect(statSync(`${file}-wal`, { throwIfNoEntry: false })).toBeUndefined();
  });

  it('are none on a connection that is closed', async () => {
    const { db, checkpoints, threads, fill } = opened();
    fill(20);
    db.close();
    expect(() => checkpoints.look()).not.toThrow();
    await setImmediate();
    expect(threads).toHaveLength(0);
  });
});
