import path from 'node:path';
import { systemClock } from '../../../src/observe/system-clock.ts';
import type { CopiedTable } from '../../../src/database/copy/copy-files.ts';
import { copyWarehouse, type CopyRequest } from '../../../src/sync/copy-warehouse.ts';
import { asOtherClient, postgresDatabase } from '../../support/databases.ts';
import { loading } from '../../support/page-loading.ts';
import { profilesFor, profileWith } from '../../support/page-records.ts';
import { openFor, tempFolder } from '../../support/temp-warehouse.ts';

/** A SQLite warehouse, and a Postgres schema that is not there yet. */
export interface Copying {
  file: string;
  inbox: string;
  to: string;
  /** Loads records into the SQLite warehouse, each by its source text, as one page of a run. */
  load(texts: readonly string[]): Promise<unknown>;
  copy(over?: Partial<CopyRequest>): Promise<CopiedTable[]>;
  /** Copies until a table is copied, and then gives up. */
  copyUntil(table: string): Promise<void>;
  /** Runs a statement on the schema of the copy. */
  onTarget(statement: string): Promise<void>;
}

export async function copying(): Promise<Copying> {
  const folder = tempFolder();
  const [file, inbox] = [path.join(folder, 'blog.db'), path.join(folder, 'blog-inbox.db')];
  const to = `${await postgresDatabase()}?schema=blog`;
  const { load } = await loading(await openFor(file));
  const copy = (over: Partial<CopyRequest> = {}): Promise<CopiedTable[]> =>
    copyWarehouse({
      from: `sqlite:${file}`,
      to,
      resources: ['content'],
      whole: profilesFor(profileWith(), ['content']).whole,
      clock: systemClock,
      signal: new AbortController().signal,
      onTable: () => undefined,
      ...over,
    });
  return {
    file,
    inbox,
    to,
    copy,
    load: (texts) => load(texts),
    copyUntil: async (table) => {
      const stop = new AbortController();
      const onTable = (copied: CopiedTable): void => {
        if (copied.table === table) stop.abort(new Error('stopped'));
      };
      await copy({ signal: stop.signal, onTable }).then(
        () => Promise.reject(new Error('it was not stopped')),
        (error: unknown) => (stop.signal.aborted ? undefined : Promise.reject(error)),
      );
    },
    onTarget: (statement) => asOtherClient(to, async (client) => void (await client.query(statement))),
  };
}
