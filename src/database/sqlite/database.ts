// SQLite as a `Database`: one file per source, and one for its inbox.
import { accessSync, constants, existsSync, statSync } from 'node:fs';
import { stat } from 'node:fs/promises';
import path from 'node:path';
import type { WarehouseAddress } from '../../config/warehouse-address.ts';
import { ConfigError, SyncError } from '../../model/errors.ts';
import type { Database, StoredSizes } from '../database.ts';
import { inboxQueries, type InboxTables } from '../inbox.ts';
import { INBOX_MIGRATIONS, type Migrations, refuseOtherVersion, WAREHOUSE_MIGRATIONS } from '../migrate.ts';
import type { OwnTables } from '../own-tables.ts';
import type { WarehouseReader } from '../reading.ts';
import { openReadOnly, type ReadOnlyFile } from './connection/read-only-file.ts';
import { openInbox } from './inbox/open-inbox.ts';
import { snapshotReader } from './snapshot-reader.ts';
import { VIEW_DIALECT } from './views/dialect.ts';
import { createRowQueries, openWarehouse, tableNames } from './warehouse.ts';

/** One file per source; one process does all the work on it. */
export function declareDatabase({ file }: WarehouseAddress<'sqlite'>): Database {
  // A separate file, so that locks of the warehouse never delay the response to a webhook.
  const inbox = `${file.replace(/\.(db|sqlite3?)$/, '')}-inbox.db`;
  return {
    shown: `sqlite:${file}`,
    file,
    shared: null,
    openWarehouse: (clock) => openWarehouse(file, clock),
    openExistingWarehouse: () => openExistingWarehouse(file),
    openSnapshot: async (_, isShared) => {
      const opened = await openExisting<OwnTables>(file, WAREHOUSE_MIGRATIONS, isShared);
      return opened === null ? null : snapshotReader(opened);
    },
    assertWritable: () => assertWritable(file),
    inbox: `sqlite:${inbox}`,
    // For an inbox, `file` is the inbox itself.
    openInbox: (clock) => openInbox(file, clock),
    openExistingInbox: async () => {
      const opened = await openExisting<InboxTables>(file, INBOX_MIGRATIONS);
      return opened === null ? null : inboxQueries(opened.own, opened.close);
    },
    changeReaders: () =>
      Promise.reject(
        new ConfigError('usage', `${file}: SQLite knows no roles`, {
          hint: 'who may read the file may read all of it: use the rights of files, or a Postgres warehouse',
        }),
      ),
    backUp: async (to, signal) => (await import('./backup.ts')).backUp(file, to, signal),
    storedSizes: () => fileSizes(file),
  };
}

async function openExistingWarehouse(file: string): Promise<WarehouseReader | null> {
  const opened = await openExisting<OwnTables>(file, WAREHOUSE_MIGRATIONS);
  if (opened === null) return null;
  const { own, close } = opened;
  return {
    own,
    rows: createRowQueries(own),
    dialect: VIEW_DIALECT,
    isWritable: () => Promise.resolve(isWritable(file) && isWritable(path.dirname(file))),
    server: () => Promise.resolve(null),
    close,
  };
}

/** Returns the names of external tables in the file. Throws `ConfigError` if this user may not create the file. */
async function assertWritable(file: string): Promise<ReadonlySet<string>> {
  const folder = existingFolder(path.dirname(file));
  if (statSync(folder).isDirectory() && isWritable(folder)) {
    if (!existsSync(file)) return new Set();
    if (isWritable(file)) {
      const { own, close } = openReadOnly<OwnTables>(file);
      return tableNames(own).finally(close);
    }
  }
  throw new ConfigError('warehouse_unreachable', `${file}: this user can make nothing in ${folder}`, {
    hint: 'check the path in `warehouse` and that this user may write there',
  });
}

/** Opens a file for reading. Returns null if there is none, or one without internal tables. Throws `ConfigError`. */
async function openExisting<Tables>(
  file: string,
  migrations: Migrations,
  isShared = false,
): Promise<ReadOnlyFile<Tables> | null> {
  if (!existsSync(file)) return null;
  if (statSync(file).isDirectory()) {
    throw new ConfigError('warehouse_unreachable', `${file} is a folder, and not a file`, {
      hint: 'name a file in it: check the path in `warehouse`',
    });
  }
  const opened = openReadOnly<Tables>(file, isShared);
  await using closing = new AsyncDisposableStack();
  // The error that the command shows must not be replaced by one of closing.
  closing.defer(() => opened.close().catch(() => undefined));
  const appliedMigrations = opened.stepsDone();
  if (appliedMigrations === null) return null;
  refuseOtherVersion(file, new Set(appliedMigrations), migrations);
  closing.move();
  return opened;
}

function isWritable(target: string): boolean {
  try {
    accessSync(target, constants.W_OK);
    return true;
  } catch {
    return false;
  }
}

function existingFolder(folder: string): string {
  return existsSync(folder) ? folder : existingFolder(path.dirname(folder));
}

/** Throws if the file was deleted: SQLite would keep writing to it. */
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
