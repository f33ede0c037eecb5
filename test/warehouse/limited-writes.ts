import { spawnSync } from 'node:child_process';
import { copyFileSync, existsSync, rmSync, statSync } from 'node:fs';
import path from 'node:path';
import Database from 'better-sqlite3';
import { messageOf, SyncError } from '../../src/model/errors.ts';
import { PIECES, type Piece } from './limited-pieces.ts';

/**
 * Does each piece of work with files that may grow up to a limit, the limit being raised by a step from nothing until
 * all fits: so that each write once is the one that fails. Then the same once more without a limit. Prints as JSON what
 * was not as it has to be.
 */
const [folder = '', step = '16384'] = process.argv.slice(2);
/** They hold the time at which something was opened. */
const OWN_TIMES = /^_sync_(?:leases|(?:inbox_)?migrations)/;

const told: unknown[] = [];
for (const [name, { before, open }] of Object.entries(PIECES)) {
  const base = path.join(folder, 'base.db');
  clear(base);
  if (before !== null) await whole(before, base);
  const wanted = { before: stateOf(base), after: await afterOf(open, base) };
  told.push({ name, ...(await limited(open, base, wanted)), ...(await closed(open, base, wanted.after)) });
}
console.log(JSON.stringify(told));

interface Wanted {
  before: string;
  after: string;
}

/** The work itself is cut short. */
async function limited(open: (file: string) => Promise<Piece>, base: string, wanted: Wanted) {
  const codes = new Set<string>();
  const faults: string[] = [];
  for (let limit = 0, cut = 0; ; limit += Number(step), cut += 1) {
    const file = freshCopy(base);
    const piece = await open(file);
    setLimit(limit);
    const error = await piece.work().then(() => null, codeOf);
    setLimit(null);
    const state = stateOf(file);
    if (error === null) {
      if (state !== wanted.after) faults.push(`${limit}: done, and not there`);
      await piece.close();
      return { cut, codes: [...codes], faults };
    }
    codes.add(error);
    if (state !== wanted.before) faults.push(`${limit}: refused, and there is something of it`);
    await piece.work().catch((again: unknown) => faults.push(`${limit}: and then ${codeOf(again)}`));
    await piece.close();
    if (stateOf(file) !== wanted.after) faults.push(`${limit}: not there after a second time`);
    if (!isSound(file)) faults.push(`${limit}: damaged`);
  }
}

/** What was done is there, also where nothing can be copied out of the log as the file is closed. */
async function closed(open: (file: string) => Promise<Piece>, base: string, after: string) {
  const lost: string[] = [];
  let [limit, largest] = [0, 0];
  for (; limit <= largest; limit += Number(step)) {
    const file = freshCopy(base);
    const piece = await open(file);
    await piece.work();
    largest = Math.max(statSync(file).size, sizeOf(`${file}-wal`));
    setLimit(limit);
    await piece.close().catch(() => undefined);
    setLimit(null);
    if (stateOf(file) !== after || !isSound(file)) lost.push(`${limit}: lost as it was closed`);
  }
  return { lost };
}

async function afterOf(open: (file: string) => Promise<Piece>, base: string): Promise<string> {
  const file = freshCopy(base);
  await whole(open, file);
  return stateOf(file);
}

async function whole(open: (file: string) => Promise<Piece>, file: string): Promise<void> {
  const piece = await open(file);
  await piece.work();
  await piece.close();
}

function freshCopy(base: string): string {
  const file = path.join(folder, 'blog.db');
  clear(file);
  if (existsSync(base)) copyFileSync(base, file);
  return file;
}

function clear(file: string): void {
  for (const end of ['', '-wal', '-shm', '-journal']) rmSync(file + end, { force: true });
}

/** For this process alone, from now on; in bytes, null for none. */
function setLimit(bytes: number | null): void {
  const limit = `--fsize=${bytes ?? 'unlimited'}:`;
  const { status, stderr } = spawnSync('prlimit', ['--pid', String(process.pid), limit], { encoding: 'utf8' });
  if (status !== 0) throw new Error(`prlimit: ${stderr}`);
}

/** All tables and their rows, as another program reads them. */
function stateOf(file: string): string {
  if (!existsSync(file)) return '[]';
  const db = new Database(file, { readonly: true });
  const names = db
    .prepare<[], string>("SELECT name FROM sqlite_schema WHERE type = 'table' ORDER BY name")
    .pluck()
    .all();
  const rows = (name: string): unknown[] =>
    OWN_TIMES.test(name) ? [] : db.prepare(`SELECT * FROM "${name}" ORDER BY 1, 2`).all();
  const state = JSON.stringify(names.map((name) => [name, rows(name)]));
  db.close();
  return state;
}

function isSound(file: string): boolean {
  const db = new Database(file, { readonly: true });
  const found = db.prepare<[], string>('PRAGMA integrity_check').pluck().all();
  db.close();
  return found.join() === 'ok';
}

function sizeOf(file: string): number {
  return statSync(file, { throwIfNoEntry: false })?.size ?? 0;
}

function codeOf(error: unknown): string {
  return error instanceof SyncError ? error.code : messageOf(error);
}
