import { createMetrics } from '../observe/metrics.ts';
import { type Attention, attentionOf, headlineOf, lastError } from '../serve/status/attention.ts';
import { createCollector } from '../serve/status/collect.ts';
import type { StatusSnapshot } from '../serve/status/snapshot.ts';
import { readSuccesses, type StatusParts, storedParts } from '../serve/status/source-status.ts';
import type { SourceSettings } from '../settings/settings.ts';
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
  const successes = await readSuccesses(source, warehouse.own);
  const metrics = createMetrics(version, () => 0);
  try {
    const parts = storedParts(source, {
      clock,
      metrics,
      secrets,
      successes,
      read: (work) => work(warehouse),
      inbox: source.webhook === null ? null : () => waitingIn(source.warehouse, clock),
    });
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
