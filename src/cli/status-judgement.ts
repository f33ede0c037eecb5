import { SourceActivity } from '../observe/activity.ts';
import { createMetrics } from '../observe/metrics.ts';
import { scrubOwn } from '../observe/scrub/scrub.ts';
import { attentionOf, headlineOf, lastError, type Attention } from '../serve/status/attention.ts';
import { createCollector } from '../serve/status/collect.ts';
import type { ScheduleStatus, StatusSnapshot } from '../serve/status/snapshot.ts';
import type { StatusParts } from '../serve/status/source-status.ts';
import type { SourceSettings } from '../settings/settings.ts';
import { readCheckpoint } from '../state/checkpoints.ts';
import { dueOf, timesOf, type StoredSuccess } from '../trigger/schedule/due.ts';
import { openInboxToRead } from '../warehouse/databases.ts';
import type { WarehouseReader } from '../warehouse/reading.ts';
import type { CliContext } from './command/context.ts';
import { EXIT_CODES, type ExitCode } from './command/exit-code.ts';

/** What the page of a `serve` would say of a source needs attention, and the exit code that stands for it. */
export interface Judgement {
  attention: Attention[];
  code: ExitCode;
}

type Judged = Pick<StatusParts, 'source'> & { source: SourceSettings };

/**
 * Judges a source as its page would, from the warehouse and the inbox alone: `ok` where all is fresh and complete,
 * `partial` where a person should look or there is no whole copy yet, `failed` where the last run of a resource failed
 * or something cannot be read.
 */
export async function judge(context: CliContext, judged: Judged, warehouse: WarehouseReader): Promise<Judgement> {
  const snapshot = await snapshotOf(context, judged, warehouse);
  const attention = attentionOf(snapshot);
  const resources = snapshot.sources.flatMap((source) => source.resources);
  const isFailed = attention.some(({ severity }) => severity === 'down') || resources.some((one) => lastError(one));
  const isFine = headlineOf(snapshot, attention).tone === 'fine';
  return { attention, code: isFailed ? EXIT_CODES.failed : isFine ? EXIT_CODES.ok : EXIT_CODES.partial };
}

async function snapshotOf(
  { clock, version, secrets }: CliContext,
  { source }: Judged,
  warehouse: WarehouseReader,
): Promise<StatusSnapshot> {
  const now = clock.now();
  const schedules = new Map<string, ScheduleStatus>();
  for (const resource of source.resources) {
    schedules.set(resource, scheduleOf(source, resource, await readCheckpoint(warehouse.own, resource), now));
  }
  const metrics = createMetrics(version, () => 0);
  try {
    const parts: StatusParts = {
      source,
      activity: new SourceActivity(source.name, clock, metrics),
      read: (work) => work(warehouse),
      version: () => null,
      governor: () => null,
      schedule: (resource) => schedules.get(resource) ?? NEVER,
      inbox: source.webhook === null ? null : () => waitingIn(source.warehouse, clock),
      deliveries: null,
      names: () => [],
      scrub: (text) => scrubOwn(text, secrets),
    };
    const collector = createCollector({
      version,
      clock,
      startedAt: now,
      sources: () => [parts],
      stopping: () => false,
    });
    const { sources, ...rest } = await collector.snapshot();
    return { ...rest, sources: sources.map(withoutOwners) };
  } finally {
    metrics.close();
  }
}

/** Whoever works on a resource, it is not this process: that is as it should be. */
function withoutOwners(status: StatusSnapshot['sources'][number]): StatusSnapshot['sources'][number] {
  return { ...status, resources: status.resources.map((resource) => Object.assign({}, resource, { owner: null })) };
}

const NEVER: ScheduleStatus = { incremental: null, full: null, timezone: 'UTC', next_at: null, overdue_at: null };

function scheduleOf(
  { name: source, profile, schedule }: SourceSettings,
  resource: string,
  stored: StoredSuccess | null,
  now: number,
): ScheduleStatus {
  const { timezone, resources, ...usual } = schedule;
  const { incremental = usual.incremental, full = usual.full } = resources[resource] ?? {};
  const hasFilter = (profile.resources[resource]?.incremental ?? null) !== null;
  const times = timesOf({ source, resource, hasFilter }, schedule);
  const elapsed = { success: null, full: null };
  const { nextAt, overdueAt } = dueOf({ times, stored, elapsed, now, watchedSince: now });
  return { incremental, full, timezone, next_at: nextAt, overdue_at: overdueAt };
}

/** Deliveries that are looked at: those behind them are younger, or as bad. */
const MOST_LOOKED_AT = 100;

async function waitingIn(warehouse: string, clock: CliContext['clock']): ReturnType<NonNullable<StatusParts['inbox']>> {
  const inbox = await openInboxToRead(warehouse, clock);
  try {
    const [waiting, dead] = [
      await inbox.list({ state: 'waiting', limit: MOST_LOOKED_AT }),
      await inbox.list({ state: 'dead', limit: MOST_LOOKED_AT }),
    ];
    const oldest = waiting.at(-1)?.received_at ?? null;
    return { waiting: waiting.length, waitingBytes: 0, dead: dead.length, different: 0, oldest };
  } finally {
    await inbox.close();
  }
}
