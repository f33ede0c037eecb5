import { setTimeout as delay } from 'node:timers/promises';
import PQueue from 'p-queue';
import { onTestFinished } from 'vitest';
import { inboxAddress, openInbox } from '../../src/database/databases.ts';
import type { DeliveryRow, Inbox } from '../../src/database/inbox.ts';
import { readTables } from '../../src/database/state/catalog.ts';
import { readCheckpoint } from '../../src/database/state/checkpoints.ts';
import type { OwnedResource } from '../../src/database/state/owned-resource.ts';
import { newMeter } from '../../src/http/client.ts';
import type { Clock } from '../../src/model/clock.ts';
import { timestampText } from '../../src/model/timestamp-text.ts';
import { systemClock } from '../../src/observe/system-clock.ts';
import type { App } from '../../src/server/app.ts';
import { Drain, type DrainEvent, type DrainOptions } from '../../src/server/inbox/drain.ts';
import type { SyncCommand } from '../../src/sync/plan.ts';
import { createResourceContext, type ResourceContext, type SourceContext } from '../../src/sync/resource-context.ts';
import { type Journey, requestFor } from './journey.ts';

export interface DrainingOptions extends Partial<DrainOptions> {
  /** Resources that are synced; all of the source's where absent. */
  only?: readonly string[];
}

/** A source as `serve` wires it, without its web server and its schedule. */
export interface Draining {
  app: App;
  inbox: Inbox;
  drain: Drain;
  events: DrainEvent[];
  errors: unknown[];
  context(resource: string): Promise<ResourceContext>;
  /** Throws where it does not end well. */
  walk(resource: string, command: SyncCommand): Promise<void>;
  /** Stores one delivery for each body, as the receiver does, and wakes the drain; returns their ids. */
  deliver(...bodies: readonly (object | string | Uint8Array)[]): Promise<string[]>;
  /** Waits until no delivery waits, also none that is put off. */
  settled(): Promise<void>;
  rows(): Promise<DeliveryRow[]>;
  /** As a kill would end it: nothing is waited for. */
  close(): Promise<void>;
}

/** The resources of which a test has asked for a context. */
type Held = Map<string, Promise<OwnedResource>>;

let deliveries = 0;

/** An event as the sandbox and the default profile write it. */
export function eventFor(resource: string, id: unknown, kind = 'updated', updated?: string | number): object {
  return {
    type: `${resource}.${kind}`,
    data: { resource, id, ...(updated === undefined ? {} : { updated_at: updated }) },
  };
}

/** Opens app, inbox and drain on a journey's files; closed with the test at the latest. */
export async function draining(
  journey: Pick<Journey, 'open'>,
  { only, clock = systemClock, ...changed }: DrainingOptions = {},
): Promise<Draining> {
  const app = await journey.open(clock);
  const inbox = await openInbox(inboxAddress(app.source.warehouse), clock);
  const { signal, abort } = stopSignal();
  const held: Held = new Map();
  const contexts = contextsOf(app, held, clock, signal);
  const { profile } = app.source;
  const names = only ?? app.source.resources;
  const resources = Object.fromEntries(Object.entries(profile.resources).filter(([name]) => names.includes(name)));
  const [events, errors]: [DrainEvent[], unknown[]] = [[], []];
  const scans = new PQueue({ concurrency: 1 });
  const drain = new Drain({
    webhooks: profile.webhooks,
    resources,
    inbox,
    persist: () => Promise.resolve(),
    secrets: [],
    refetch: (resource, key, expected) => app.refetch({ resource, key, expected, signal }),
    // As in `serve`, where a resource has one scan at a time.
    scan: (resource, command) => scans.add(() => walkOf(app, resource, command, signal)),
    clock,
    attempts: 8,
    keepMs: 7 * 86_400_000,
    concurrency: 4,
    watcher: { ended: (event) => void events.push(event), failed: (error) => void errors.push(error) },
    ...changed,
  });
  const close = once(async () => {
    abort();
    await drain.stop();
    await inbox.close();
    for (const acquired of held.values()) await acquired.then((owned) => owned.release());
    await app.close();
  });
  onTestFinished(close);
  return {
    app,
    inbox,
    drain,
    events,
    errors,
    context: contexts,
    walk: (resource, command) => walkOf(app, resource, command, signal),
    close,
    deliver: async (...bodies) => {
      const made = bodies.map((body) => deliveryOf(body, clock));
      await inbox.write(made);
      drain.wake();
      return made.map((delivery) => delivery.delivery_id);
    },
    settled: async () => {
      while ((await inbox.figures()).waiting > 0) await delay(5);
    },
    rows: () => inbox.list({ limit: 1_000_000 }),
  };
}

function deliveryOf(body: object | string | Uint8Array, clock: Clock) {
  const isBytes = body instanceof Uint8Array;
  return {
    delivery_id: `msg_${++deliveries}`,
    is_id_sent: true,
    received_at: timestampText(clock.now()),
    headers: '{}',
    body: isBytes ? body : Buffer.from(typeof body === 'string' ? body : JSON.stringify(body)),
  };
}

function contextsOf(app: App, held: Held, clock: Clock, signal: AbortSignal): Draining['context'] {
  const proofs: SourceContext['proofs'] = new Map();
  return async (resource) => {
    const acquired = held.get(resource) ?? app.ownedResources.acquire(resource);
    held.set(resource, acquired);
    const owned = await acquired;
    owned.shape ??= await readTables(app.warehouse, resource);
    const { client, listing, warehouse, source } = app;
    const { profile, deletes } = source;
    const credential = (await readCheckpoint(warehouse.own, resource))?.full_credential ?? 'none';
    const { ownedResources } = app;
    const parts = { warehouse, ownedResources, profile, listing, client, clock, credential, deletes, runId: 'serve' };
    return createResourceContext({ ...parts, scrub: (text) => text, proofs }, owned, {
      meter: newMeter(),
      signal,
    });
  };
}

/** An incremental or full walk by an app that is open already; throws what it ended with. */
async function walkOf(app: App, resource: string, command: SyncCommand, signal: AbortSignal): Promise<void> {
  const report = await app.sync(requestFor(app, command, { resources: [resource], signal }));
  const [first] = report.resources;
  if (first?.status !== 'ok' && first?.status !== 'partial') throw new Error(first?.error?.message ?? 'no report');
}

function stopSignal(): { signal: AbortSignal; abort: () => void } {
  const controller = new AbortController();
  return { signal: controller.signal, abort: () => controller.abort(new Error('stopped')) };
}

function once(work: () => Promise<void>): () => Promise<void> {
  let done: Promise<void> | null = null;
  return () => (done ??= work());
}
