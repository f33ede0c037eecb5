import { existsSync, readdirSync, rmSync } from 'node:fs';
import path from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import Database from 'better-sqlite3';
import { expect } from 'vitest';
import { startCommand, type Command } from '../support/command.ts';
import { SQLITE } from '../support/databases.ts';
import { longOrShort } from '../support/length.ts';
import { servingStage, type ServingStage } from '../support/serving.ts';

const RECORDS = { content: longOrShort(1_500, 600), images: 5, analytics: 5 };
/** Each kill comes at another moment between the first write and the end. */
const MOMENTS = 7;

/** A copy, and an inbox beside it. */
export async function stageWithCopy(): Promise<ServingStage> {
  const stage = await servingStage({ sandbox: { generate: RECORDS }, database: SQLITE, isInside: true });
  expect(await stage.run('backfill', '--log-level', 'silent')).toMatchObject({ code: 0 });
  // So that there is an inbox as well.
  const serving = await stage.serve();
  expect(await serving.stop()).toMatchObject({ code: 0 });
  return stage;
}

const start = (stage: ServingStage, ...args: string[]): Command =>
  startCommand([...args, '--config', path.join(stage.folder, 'content-sync.yaml')], stage.folder);

/** Kills it some time after it has begun to write a file that matches; false if it was faster. */
async function killed(stage: ServingStage, command: Command, begun: RegExp, ms: number): Promise<boolean> {
  const isBegun = (): boolean => readdirSync(stage.folder).some((name) => begun.test(name));
  const over = new AbortController();
  const ended = command.ended.finally(() => over.abort());
  while (!isBegun() && !over.signal.aborted) await delay(1);
  await delay(ms);
  command.kill('SIGKILL');
  return (await ended).signal === 'SIGKILL';
}

/** A file that is there under the name of the backup can be restored, whenever its backups were killed. */
export async function killedBackups(stage: ServingStage, rounds: number): Promise<void> {
  let kills = 0;
  for (let round = 0; round < rounds; round += 1) {
    const command = start(stage, 'backup', 'blog.backup');
    if (await killed(stage, command, /\.part/, (round % MOMENTS) * 15)) kills += 1;
    if (existsSync(path.join(stage.folder, 'blog.backup'))) {
      expect(await stage.run('restore', 'blog.backup')).toMatchObject({ code: 0 });
      rmSync(path.join(stage.folder, 'blog.backup'));
    }
  }
  expect(kills).toBeGreaterThan(0);
  expect(await stage.run('backup', 'blog.backup')).toMatchObject({ code: 0 });
  expect(readdirSync(stage.folder).filter((name) => name.includes('.part'))).toEqual([]);
  expect(await stage.run('restore', 'blog.backup')).toMatchObject({ code: 0 });
}

const MARK = 'UPDATE content SET title = ?';

/** Writes the same word into both files. */
function mark(stage: ServingStage, word: string): void {
  const warehouse = new Database(stage.file());
  warehouse.prepare(MARK).run(word);
  warehouse.close();
  const inbox = new Database(stage.inboxFile());
  inbox
    .prepare(
      "INSERT INTO _sync_deliveries (delivery_id, received_at, headers, body, state, reason) VALUES ('mark', '2031-01-01 00:00:00', '{}', '{}', 'ignored', ?) ON CONFLICT DO UPDATE SET reason = excluded.reason",
    )
    .run(word);
  inbox.close();
}

/** The words in both files, as a process of ours finds them when it opens them. */
function marks(stage: ServingStage): unknown[] {
  const words = [
    [stage.file(), 'SELECT DISTINCT title FROM content'],
    [stage.inboxFile(), "SELECT reason FROM _sync_deliveries WHERE delivery_id = 'mark'"],
  ].map(([at, query]) => {
    const db = new Database(at);
    try {
      expect(db.pragma('integrity_check', { simple: true })).toBe('ok');
      return db
        .prepare(query ?? '')
        .pluck()
        .all();
    } finally {
      db.close();
    }
  });
  return words.flat();
}

/** After each kill both files are those from before, or both those of the backup, as soon as anything of ours opens them. */
export async function killedRestores(stage: ServingStage, rounds: number): Promise<void> {
  mark(stage, 'then');
  expect(await stage.run('backup', 'blog.backup')).toMatchObject({ code: 0 });
  const seen = new Set<unknown>();
  for (let round = 0; round < rounds; round += 1) {
    mark(stage, 'now');
    const command = start(stage, 'restore', 'blog.backup');
    await killed(stage, command, /\.restored$/, (round % MOMENTS) * 15);
    // Whatever it left, a serve starts on it.
    const serving = await stage.serve();
    await serving.stop();
    const [first, second] = marks(stage);
    expect(first).toBe(second);
    seen.add(first);
  }
  expect([...seen].every((word) => word === 'now' || word === 'then')).toBe(true);
  expect(await stage.run('restore', 'blog.backup')).toMatchObject({ code: 0 });
  expect(marks(stage)).toEqual(['then', 'then']);
  expect(readdirSync(stage.folder).filter((name) => /restore|replaced/.test(name))).toEqual([]);
}
