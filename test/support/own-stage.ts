import type { ResourceReport } from '../../src/sync/report.ts';
import type { TestDatabase } from './databases.ts';
import { draining, eventFor, type Draining, type DrainingOptions } from './draining.ts';
import { hurriedClock } from './hurried-clock.ts';
import { journey, type Journey, requestFor } from './journey.ts';
import { recordService, type Behaviour, type OwnRecord, type RecordService } from './record-service.ts';

export interface OwnStage extends Journey {
  service: RecordService;
  /** A run of the command as a cron job would make it: in an app of its own. */
  walk(command?: 'backfill' | 'sync'): Promise<ResourceReport>;
  /** Rows of the copy. */
  rows(query?: string): Promise<Record<string, unknown>[]>;
  live(): Promise<string[]>;
  /** Opens a process that hears events. */
  listen(changed?: DrainingOptions): Promise<Listening>;
}

export interface Listening extends Draining {
  /** Delivers an event about a record and waits until it is settled; returns the outcomes so far. */
  hear(id: string | number | null, kind?: string): Promise<string[]>;
  /** A run by this same process. */
  run(command: 'backfill' | 'sync'): Promise<ResourceReport>;
}

/** Time flies in it, so that what is tried again soon is tried at once. */
const SPEED = 20;

/** A service of the test's own and a copy of it, made by one backfill. */
export async function ownStage(
  database: TestDatabase,
  records: readonly OwnRecord[],
  {
    behaviour = {},
    content = {},
    source = {},
    settings = {},
  }: {
    behaviour?: Partial<Behaviour>;
    content?: Record<string, unknown>;
    source?: Record<string, unknown>;
    settings?: Record<string, unknown>;
  } = {},
): Promise<OwnStage> {
  const service = await recordService(records, behaviour);
  const stage = await journey({
    database,
    source: { base_url: service.url, resources: ['content'], ...source },
    profile: { resources: { content } },
    settings,
  });
  const walk = async (command: 'backfill' | 'sync' = 'backfill'): Promise<ResourceReport> => {
    const { resources } = await stage.run(command);
    if (resources[0] === undefined) throw new Error('no resource was run');
    return resources[0];
  };
  await walk();
  return {
    ...stage,
    service,
    walk,
    rows: (query = 'SELECT * FROM content ORDER BY CAST(id AS INTEGER)') => stage.all<Record<string, unknown>>(query),
    live: () =>
      stage.read((db) =>
        db
          .prepare<[], string>('SELECT id FROM content WHERE _deleted_at IS NULL ORDER BY id')
          .pluck()
          .all()
          .map(String),
      ),
    listen: (changed = {}) => listening(stage, changed),
  };
}

async function listening(stage: Journey, changed: DrainingOptions): Promise<Listening> {
  const drained = await draining(stage, { clock: hurriedClock(SPEED), ...changed });
  const { app } = drained;
  return {
    ...drained,
    hear: async (id, kind = 'updated') => {
      await drained.deliver(
        id === null ? { type: `content.${kind}`, data: { resource: 'content' } } : eventFor('content', id, kind),
      );
      await drained.settled();
      return drained.events.map(({ outcome }) => outcome);
    },
    run: async (command) => {
      const report = await app.sync(requestFor(app, command));
      if (report.resources[0] === undefined) throw new Error('no resource was run');
      return report.resources[0];
    },
  };
}
