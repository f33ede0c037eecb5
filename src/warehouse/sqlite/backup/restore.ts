import { createHash } from 'node:crypto';
import { existsSync, mkdirSync, rmSync } from 'node:fs';
import { open, type FileHandle } from 'node:fs/promises';
import path from 'node:path';
import Database from 'better-sqlite3';
import type { Clock } from '../../../model/clock.ts';
import { ConfigError } from '../../../model/errors.ts';
import type { RestoreReport, RestoreRequest } from '../../backup.ts';
import type { Inbox } from '../../inbox.ts';
import { INBOX_MIGRATIONS, WAREHOUSE_MIGRATIONS, writtenByNewer, type Migrations } from '../../migrate.ts';
import { databaseError } from '../connection/errors.ts';
import { decideRestore, finishRestore, RESTORED } from '../connection/finish-restore.ts';
import type { Warehouse } from '../../warehouse.ts';
import { openInbox, openInboxFile } from '../inbox/open-inbox.ts';
import { bytesOf, type Member } from './archive.ts';
import type { SourceFiles } from './back-up.ts';
import { asOneFile, erasedIn } from './erased-records.ts';
import { contentsOf, invalid, unreadable, type Contents } from './contents.ts';
import { holdAlone, type HeldFile } from './hold-alone.ts';
import { keepLaterDeliveries } from './later-deliveries.ts';
import { refuseDamaged } from './refuse-damaged.ts';

/** Opens a file, and brings it up to date. */
type OpenWarehouse = (file: string, clock: Clock) => Promise<Warehouse>;

const FREE_LEASES = "UPDATE _sync_leases SET expires_at = '1970-01-01 00:00:00'";

/**
 * Puts warehouse and inbox of a backup in the place of those that are there: both or none, at whatever moment it is
 * killed. Deliveries that were acknowledged after the backup wait in the restored inbox, and records that were erased
 * after it are asked to be erased again. Throws `ConfigError`, and changes nothing, if the backup cannot be used, or
 * `warehouse_in_use`.
 */
export async function restore(
  files: SourceFiles,
  request: RestoreRequest,
  openWarehouse: OpenWarehouse,
): Promise<RestoreReport> {
  const { from } = request;
  finishRestore(files.inbox);
  const both = [files.warehouse, files.inbox];
  await using backup = await open(from).catch((error: unknown) => {
    throw unreadable(from, error);
  });
  const contents = await contentsOf(backup, from);
  refuseOtherSource(contents, request);
  try {
    removeParts(both);
    await unpack(backup, contents, files, request);
    return await replace(files, contents, request, openWarehouse);
  } catch (error) {
    throw databaseError(error, files.warehouse);
  } finally {
    // Once it is decided, they have other names.
    removeParts(both);
  }
}

function removeParts(files: readonly string[]): void {
  for (const file of files) {
    for (const end of ['', '-wal', '-shm', '-journal']) rmSync(`${file}${RESTORED}${end}`, { force: true });
  }
}

function refuseOtherSource({ about }: Contents, { from, source }: RestoreRequest): void {
  if (about.source === source) return;
  throw new ConfigError('backup_of_other', `${from} is a backup of the source ${about.source}, not of ${source}`, {
    hint: `name that source with --source, or the backup of ${source}`,
  });
}

/** Writes the files beside those that they are to replace, and proves that they are what was backed up, and whole. */
async function unpack(
  backup: FileHandle,
  { warehouse, inbox, sums }: Contents,
  files: SourceFiles,
  { from, signal, clock }: RestoreRequest,
): Promise<void> {
  mkdirSync(path.dirname(files.warehouse), { recursive: true });
  const to = { warehouse: `${files.warehouse}${RESTORED}`, inbox: `${files.inbox}${RESTORED}` };
  await unpackOne(backup, { member: warehouse, to: to.warehouse, sum: sums.get(warehouse.name), from, signal });
  prove(to.warehouse, from, WAREHOUSE_MIGRATIONS, FREE_LEASES);
  if (inbox !== null) {
    await unpackOne(backup, { member: inbox, to: to.inbox, sum: sums.get(inbox.name), from, signal });
    prove(to.inbox, from, INBOX_MIGRATIONS);
  } else if (!existsSync(files.inbox)) return;
  // Brought up to date, or made, so that what came later has its place in it.
  await (await openInboxFile(to.inbox, clock)).close();
}

interface Unpacking {
  member: Member;
  to: string;
  sum: string | undefined;
  from: string;
  signal: AbortSignal;
}

async function unpackOne(backup: FileHandle, { member, to, sum, from, signal }: Unpacking): Promise<void> {
  const hash = createHash('sha256');
  await using file = await open(to, 'w', 0o600);
  for await (const chunk of bytesOf(backup, member)) {
    signal.throwIfAborted();
    hash.update(chunk);
    await file.writeFile(chunk);
  }
  await file.sync();
  if (hash.digest('hex') !== sum) throw invalid(from, `${member.name} is not what was backed up (SHA-256)`);
}

/** `change` is run on a file that is proved to be whole and not of a newer content-sync. */
function prove(file: string, shown: string, migrations: Migrations, change = ''): void {
  const db = new Database(file);
  try {
    refuseDamaged(db, shown);
    const done = db.prepare<[], string>('SELECT name FROM _sync_migrations').pluck().all();
    const newer = done.find((step) => !(step in migrations));
    if (newer !== undefined) throw writtenByNewer(shown, newer);
    db.pragma('synchronous = FULL');
    if (change !== '') db.exec(change);
  } finally {
    db.close();
  }
}

/** From here on it is done or not begun. */
async function replace(
  files: SourceFiles,
  { about }: Contents,
  request: RestoreRequest,
  openWarehouse: OpenWarehouse,
): Promise<RestoreReport> {
  const { clock, signal } = request;
  const held: HeldFile[] = [];
  try {
    const warehouse = holdAlone(files.warehouse);
    held.push(warehouse);
    const inbox = holdAlone(files.inbox);
    held.push(inbox);
    const deliveries = await laterDeliveries(inbox, `${files.inbox}${RESTORED}`, clock);
    const forgotten = await carryForgotten(warehouse, files, request, openWarehouse);
    signal.throwIfAborted();
    const replaced = [files.warehouse, files.inbox].filter((file) => existsSync(`${file}${RESTORED}`));
    decideRestore(files.inbox, replaced);
    finishRestore(files.inbox);
    return { takenAt: Date.parse(about.taken_at), deliveries, forgotten };
  } finally {
    for (const each of held.toReversed()) each.release();
  }
}

/** Before it is decided: at no moment the records that were erased are there and nobody knows. */
async function carryForgotten(
  { db }: HeldFile,
  files: SourceFiles,
  request: RestoreRequest,
  openWarehouse: OpenWarehouse,
): Promise<number | null> {
  const erased = db === null ? null : erasedIn(db);
  if (erased === null || erased.length === 0) return erased?.length ?? null;
  const restored = { warehouse: `${files.warehouse}${RESTORED}`, inbox: `${files.inbox}${RESTORED}` };
  const opened: (Warehouse | Inbox)[] = [];
  try {
    const warehouse = await openWarehouse(restored.warehouse, request.clock);
    opened.push(warehouse);
    const inbox = existsSync(restored.inbox) ? await openInbox(restored.inbox, request.clock) : null;
    if (inbox !== null) opened.push(inbox);
    return await request.carryForgotten({ warehouse, inbox }, erased);
  } finally {
    for (const each of opened) await each.close();
    for (const file of Object.values(restored)) asOneFile(file);
  }
}

async function laterDeliveries({ db }: HeldFile, restored: string, clock: Clock): Promise<number | null> {
  if (!existsSync(restored)) return 0;
  const opened = await openInboxFile(restored, clock);
  try {
    const kept = db === null ? null : keepLaterDeliveries(db, opened.db);
    // A single file again, which can be moved.
    opened.db.pragma('journal_mode = DELETE');
    return kept;
  } finally {
    await opened.close();
  }
}
