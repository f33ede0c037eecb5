import { accessSync, constants, existsSync, statSync } from 'node:fs';
import { stat } from 'node:fs/promises';
import path from 'node:path';
import { ConfigError, SyncError } from '../../model/errors.ts';
import type { WarehouseAddress } from '../../config/warehouse-address.ts';
import type { Database, StoredSizes } from '../database.ts';
import { inboxViewer } from '../inbox-queries.ts';
import type { InboxTables } from '../inbox.ts';
import { INBOX_MIGRATIONS, type Migrations, refuseOtherVersion, WAREHOUSE_MIGRATIONS } from '../migrate.ts';
import type { OwnTables } from '../own-tables.ts';
import type { WarehouseReader } from '../reading.ts';
import { backUp } from './backup/back-up.ts';
import { restore } from './backup/restore.ts';
import { finishRestore, leftoversOf } from './connection/finish-restore.ts';
import { openUnchanged, type UnchangedFile } from './connection/unchanged-file.ts';
import { openInbox } from './inbox/open-inbox.ts';
import { snapshotReader } from './snapshot-reader.ts';
import { VIEW_DIALECT } from './views/dialect.ts';
import { openWarehouse, rowsIn, tableNames } from './warehouse.ts';

/** A file of its own per source; one process does all the work on it. */
export function declareDatabase({ file }: WarehouseAddress<'sqlite'>): Database {
  // A file of its own, so that nothing that is done with the warehouse, by whomever, delays an answer.
  const inbox = `${file.replace(/\.(db|sqlite3?)$/, '')}-inbox.db`;
  return {
    shown: `sqlite:${file}`,
    file,
    shared: null,
    openWarehouse: async (clock) => {
      finishRestore(inbox);
      return openWarehouse(file, clock);
    },
    lookForWarehouse: () => lookForWarehouse(file),
    openSnapshot: async (_, isBeside) => {
      const opened = await look<OwnTables>(file, WAREHOUSE_MIGRATIONS, isBeside);
      return opened === null ? null : snapshotReader(opened);
    },
    refuseMaking: () => refuseMaking(file),
    inbox: `sqlite:${inbox}`,
    // Here the address is that of the inbox itself.
    openInbox: async (clock) => {
      finishRestore(file);
      return openInbox(file, clock);
    },
    lookForInbox: async () => {
      const opened = await look<InboxTables>(file, INBOX_MIGRATIONS);
      return opened === null ? null : inboxViewer(opened.own, opened.close);
    },
    changeReaders: () =>
      Promise.reject(
        new ConfigError('grants_unsupported', `${file}: SQLite knows no roles`, {
          hint: 'who may read the file may read all of it: use the rights of files, or a Postgres warehouse',
        }),
      ),
    backUp: (request) => backUp({ warehouse: file, inbox }, request),
    restore: (request) => restore({ warehouse: file, inbox }, request, openWarehouse),
    restoreLeftovers: () => leftoversOf([file, inbox]),
    storedSizes: () => fileSizes(file),
  };
}

/** Null if there is no file, or none with tables of ours. Throws `ConfigError` if it cannot be read. */
async function lookForWarehouse(file: string): Promise<WarehouseReader | null> {
  const opened = await look<OwnTables>(file, WAREHOUSE_MIGRATIONS);
  if (opened === null) return null;
  const { own, close } = opened;
  return {
    ...rowsIn(own),
    own,
    dialect: VIEW_DIALECT,
    isWritable: () => Promise.resolve(mayWrite(file) && mayWrite(path.dirname(file))),
    server: () => Promise.resolve(null),
    close,
  };
}

/** Names of tables that others made in the file. Throws `ConfigError` if this user may not make it, or the folders on the way to it. */
async function refuseMaking(file: string): Promise<ReadonlySet<string>> {
  const folder = firstThere(path.dirname(file));
  if (statSync(folder).isDirectory() && mayWrite(folder)) {
    if (!existsSync(file)) return new Set();
    if (mayWrite(file)) {
      const { own, close } = openUnchanged<OwnTables>(file);
      return tableNames(own).finally(close);
    }
  }
  throw new ConfigError('warehouse_unreachable', `${file}: this user can make nothing in ${folder}`, {
    hint: 'check the path in `warehouse` and that this user may write there',
  });
}

async function look<Tables>(
  file: string,
  migrations: Migrations,
  isBeside = false,
): Promise<UnchangedFile<Tables> | null> {
  if (!existsSync(file)) return null;
  if (statSync(file).isDirectory()) {
    throw new ConfigError('warehouse_unreachable', `${file} is a folder, and not a file`, {
      hint: 'name a file in it: check the path in `warehouse`',
    });
  }
  const opened = openUnchanged<Tables>(file, isBeside);
  let isOurs = false;
  try {
    const done = opened.stepsDone();
    if (done === null) return null;
    refuseOtherVersion(file, new Set(done), migrations);
    isOurs = true;
    return opened;
  } finally {
    if (!isOurs) await opened.close();
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

/** Throws if the file is gone: SQLite itself would go on writing into what nobody finds. */
async function fileSizes(file: string): Promise<StoredSizes> {
  try {
    const { size } = await stat(file);
    const wal = await stat(`${file}-wal`).catch(() => null);
    return { file_bytes: size, wal_bytes: wal?.size ?? 0 };
  } catch (error) {
    throw new SyncError('warehouse_gone', `${file} is no longer there, or may not be read`, {
      recovery: 'retry',
      hint: 'put it back, or restart to begin a new copy',
      cause: error,
    });
  }
}
