import type { RunChoices } from './journey.ts';
import { journey, type Journey, type JourneyOptions } from './journey.ts';
import type { SyncCommand } from '../../src/sync/plan.ts';
import type { ResourceReport } from '../../src/sync/report.ts';
import { deleteFaults, differences } from './compare-copy.ts';
import { USUAL, type TestDatabase } from './databases.ts';

export interface DeleteStage extends Journey {
  /** A run of `content` alone. */
  walk(command?: SyncCommand, choices?: RunChoices): Promise<ResourceReport>;
  /** Deletes so many of the service's oldest records; returns their ids. */
  remove(count: number): string[];
  live(): Promise<string[]>;
  deleted(): Promise<string[]>;
  suspects(): Promise<Record<string, unknown>[]>;
  /** Everything in which the copy is not the service, and faults of deleted rows and history. */
  faults(bodies?: boolean): Promise<string[]>;
  /** Makes it look as if all rows had been written, and those of the last day deleted, so much earlier. */
  age(ms: number): Promise<void>;
}

/** One resource, copied once. */
export async function deleteStage(records: number, options: JourneyOptions = {}): Promise<DeleteStage> {
  const stage = await journey({
    ...options,
    sandbox: { generate: { content: records }, ...options.sandbox },
    source: { resources: ['content'], ...options.source },
  });
  const walk = async (command: SyncCommand = 'backfill', choices: RunChoices = {}): Promise<ResourceReport> => {
    const { resources } = await stage.run(command, choices);
    if (resources[0] === undefined) throw new Error('no resource was run');
    return resources[0];
  };
  const ids = (where: string): Promise<string[]> =>
    stage.column<string>(`SELECT id FROM content WHERE ${where} ORDER BY id`);
  await walk();
  return {
    ...stage,
    walk,
    remove: (count) => {
      const chosen = [...stage.sandbox.store.list('content')].slice(0, count).map(({ id }) => id);
      for (const id of chosen) stage.sandbox.store.remove('content', id);
      return chosen.toSorted();
    },
    live: () => ids('_deleted_at IS NULL'),
    deleted: () => ids('_deleted_at IS NOT NULL'),
    suspects: () =>
      stage.all<Record<string, unknown>>(
        'SELECT record_id AS id, reason, state, sweeps FROM _sync_suspects ORDER BY 1',
      ),
    faults: (bodies = true) =>
      stage.read((db) => [
        ...differences(db, stage.sandbox.store, { resources: ['content'], bodies }),
        ...deleteFaults(db, 'content'),
      ]),
    age: async (ms) => {
      const earlier = EARLIER[(options.database ?? USUAL).name];
      const set = (...columns: string[]): string => columns.map((name) => `${name} = ${earlier(name, ms)}`).join(', ');
      await stage.write(`UPDATE content SET ${set('_synced_at', '_deleted_at')}`);
      await stage.write(`UPDATE _sync_versions SET ${set('valid_from', 'valid_to')}`);
    },
  };
}

/** A time so many milliseconds before that of a column, in the words of each database. */
const EARLIER: Readonly<Record<TestDatabase['name'], (column: string, ms: number) => string>> = {
  sqlite: (column, ms) => `strftime('%Y-%m-%d %H:%M:%f', ${column}, '-${ms / 1_000} seconds')`,
  postgres: (column, ms) => `${column} - interval '${ms} milliseconds'`,
};
