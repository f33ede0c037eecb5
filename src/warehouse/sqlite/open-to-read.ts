import { accessSync, constants, existsSync, statSync } from 'node:fs';
import path from 'node:path';
import type { Clock } from '../../model/clock.ts';
import { ConfigError } from '../../model/errors.ts';
import type { InboxTables } from '../inbox.ts';
import { INBOX_MIGRATIONS, refuseOtherVersion, WAREHOUSE_MIGRATIONS, type Migrations } from '../migrate.ts';
import type { OwnTables } from '../own-tables.ts';
import { inboxViewer, type InboxViewer, type WarehouseReader } from '../reading.ts';
import { openUnchanged, type UnchangedFile } from './connection/unchanged-file.ts';
import { count, countDeleted } from './sqlite-warehouse.ts';

/** Null where there is no file, or none with tables of ours. Throws `ConfigError` where it cannot be read. */
export async function lookIntoSqlite(file: string, _clock: Clock): Promise<WarehouseReader | null> {
  const opened = await look<OwnTables>(file, WAREHOUSE_MIGRATIONS);
  if (opened === null) return null;
  const { own, close } = opened;
  return {
    own,
    count: (table) => count(own, table),
    countDeleted: (table, since) => countDeleted(own, table, since),
    isWritable: () => Promise.resolve(mayWrite(file) && mayWrite(path.dirname(file))),
    close,
  };
}

/** The same of a file of deliveries. */
export async function lookIntoSqliteInbox(file: string, _clock: Clock): Promise<InboxViewer | null> {
  const opened = await look<InboxTables>(file, INBOX_MIGRATIONS);
  return opened === null ? null : inboxViewer(opened.own, opened.close);
}

/** Throws `ConfigError` where this user may not make the file, or the folders on the way to it. */
export function refuseMakingSqlite(file: string, _clock: Clock): Promise<void> {
  const folder = firstThere(path.dirname(file));
  if (statSync(folder).isDirectory() && mayWrite(folder)) return Promise.resolve();
  const fault = new ConfigError('warehouse_unreachable', `${file}: this user can make nothing in ${folder}`, {
    hint: 'check the path in `warehouse` and that this user may write there',
  });
  return Promise.reject(fault);
}

async function look<Tables>(file: string, migrations: Migrations): Promise<UnchangedFile<Tables> | null> {
  if (statSync(file, { throwIfNoEntry: false }) === undefined) return null;
  const opened = openUnchanged<Tables>(file);
  let done: string[] | null = null;
  try {
    done = opened.stepsDone();
    if (done !== null) refuseOtherVersion(file, new Set(done), migrations);
    return done === null ? null : opened;
  } catch (error) {
    done = null;
    throw error;
  } finally {
    if (done === null) await opened.close();
  }
}

function mayWrite(place: string): boolean {
  try {
    accessSync(place, constants.W_OK);
    return true;
  } catch {
    return false;
  }
}

function firstThere(folder: string): string {
  return existsSync(folder) ? folder : firstThere(path.dirname(folder));
}
