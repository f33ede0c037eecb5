// Sends alerts: compares the status with what was reported, every few seconds or once after a sync.
import type { Logger } from 'pino';
import type { AlertsSettings, ChannelSettings } from '../../config/alerts-schema.ts';
import type { Settings, SourceSettings } from '../../config/settings.ts';
import { openWarehouse } from '../../database/databases.ts';
import { readSentAlerts, saveSentAlert, type SentAlert } from '../../database/state/server-state.ts';
import type { Warehouse } from '../../database/warehouse.ts';
import type { Clock } from '../../model/clock.ts';
import { messageOf } from '../../model/errors.ts';
import { repeatUntilAborted } from '../../model/waiting.ts';
import { createMetrics, type Metrics } from '../../observe/metrics.ts';
import { scrubOwn } from '../../observe/scrub.ts';
import { readStoredStatus } from '../status/collect.ts';
import type { AlertChannelStatus, SourceStatus, StatusSnapshot } from '../status/snapshot.ts';
import { type AlertMessage, begunMessage, overMessage, sendMessage } from './message.ts';
import { alertKey, type AlertState, findConditions, isOpen, planAlerts, reportedRows } from './plan-alerts.ts';

interface AlertSettings {
  channels: AlertsSettings;
  publicUrl: string | null;
}

export function alertSettings({ alerts, serve }: Settings): AlertSettings {
  return { channels: alerts, publicUrl: serve.public_url ?? null };
}

export interface AlertSource {
  name: string;
  /** True while this process is the one that reports its alerts. */
  isLeader: () => boolean;
  /** Passes its warehouse to `work`. Rejects if it cannot be opened. */
  use: <T>(work: (warehouse: Warehouse) => Promise<T>) => Promise<T>;
}

export interface AlertsOptions extends AlertSettings {
  /** The current status, as the page shows it. */
  snapshot: () => Promise<StatusSnapshot>;
  sources: () => readonly AlertSource[];
  clock: Clock;
  log: Logger;
  /** Texts that must not be in a message; may grow. */
  secrets: readonly string[];
  metrics: Metrics;
}

const CHECK_INTERVAL_MS = 5_000;
/** Between two attempts at a channel that fails: twice as long each time. */
const MIN_RETRY_MS = 10_000;
const MAX_RETRY_MS = 600_000;

/** Reports problems and their ends by the channels of the settings. Nothing waits for it. */
export class Alerts {
  readonly #options: AlertsOptions;
  readonly #stopping = new AbortController();
  readonly #store: AlertStore;
  readonly #channels: readonly AlertChannel[];
  #checking: Promise<void> = Promise.resolve();

  constructor(options: AlertsOptions) {
    this.#options = options;
    this.#store = new AlertStore(options);
    const shared = { ...options, store: this.#store, signal: this.#stopping.signal };
    this.#channels = Object.entries(options.channels).map(
      ([name, settings]) => new AlertChannel({ ...shared, name, settings }),
    );
  }

  /** Checks the status every few seconds from now on. */
  start(): void {
    const { clock, log } = this.#options;
    const failed = (error: unknown): void => log.warn({ error }, `alerts were deferred: ${messageOf(error)}`);
    const period = { clock, everyMs: CHECK_INTERVAL_MS, signal: this.#stopping.signal, failed };
    this.#checking = repeatUntilAborted(period, () => this.#check(false));
  }

  /** Checks once, reports without a grace period, and resolves after each channel has accepted it or failed. */
  async checkOnce(): Promise<void> {
    await this.#check(true);
    await this.#idle();
  }

  status(): AlertChannelStatus[] {
    return this.#channels.map(({ status }) => ({ ...status }));
  }

  /** Aborts requests in flight: their messages are sent after the next start. */
  async stop(): Promise<void> {
    this.#stopping.abort();
    await this.#checking;
    await this.#idle();
    await this.#store.write([]);
  }

  async #idle(): Promise<void> {
    await Promise.all(this.#channels.map(({ idle }) => idle));
  }

  async #check(isOnce: boolean): Promise<void> {
    const channels = this.#channels.filter(({ isBusy }) => !isBusy);
    if (channels.length === 0) return;
    const { conditions, knownSources, copied } = findConditions(await this.#options.snapshot());
    const led = new Map(this.#options.sources().map(({ name, isLeader }) => [name, isLeader()]));
    await this.#store.read();
    const isKnown = (name: string): boolean => !led.has(name) || this.#store.has(name);
    const state = {
      // Of a source whose alerts were not read, only that it cannot be read is reported.
      conditions: conditions.filter(({ source, resource }) =>
        resource === null ? led.get(source) !== false : isKnown(source),
      ),
      knownSources: new Set([...knownSources].filter(isKnown)),
      copied: copied.filter(({ source }) => isKnown(source)),
    };
    for (const channel of channels) channel.report(state, isOnce);
  }
}

interface ChannelOptions extends AlertsOptions {
  name: string;
  settings: ChannelSettings;
  store: AlertStore;
  signal: AbortSignal;
}

/** One channel over time: what it reports, and how long it waits after a failure. */
class AlertChannel {
  /** Resolves once no message is in flight. */
  idle = Promise.resolve();
  isBusy = false;
  readonly status: AlertChannelStatus;
  readonly #options: ChannelOptions;
  #pending: ReadonlyMap<string, number> = new Map();
  #failures = 0;
  #tryAt = -Infinity;

  constructor(options: ChannelOptions) {
    this.#options = options;
    this.status = { channel: options.name, problem: null, since: null, open: 0 };
  }

  /** Reports without the caller waiting. Must not be called while the channel is busy. */
  report(state: AlertState, isOnce: boolean): void {
    this.isBusy = true;
    this.idle = this.#report(state, isOnce)
      .catch((error: unknown) => this.#options.log.error({ error }, `alerts were deferred: ${messageOf(error)}`))
      .finally(() => (this.isBusy = false));
  }

  async #report(state: AlertState, isOnce: boolean): Promise<void> {
    const { name: channel, settings, store, clock, secrets, publicUrl } = this.#options;
    const now = clock.now();
    const input = { channel, settings, state, reported: store.rows(channel), pending: this.#pending, now, isOnce };
    const { begun, over, keep, pending } = planAlerts(input);
    this.#pending = pending;
    await this.#save(keep);
    if (clock.monotonic() < this.#tryAt) return;
    const context = { now, publicUrl, scrub: (text: string) => scrubOwn(text, secrets) };
    if (begun.length > 0) {
      if (!(await this.#send(begunMessage(begun, context)))) return;
      await this.#save(reportedRows(begun, input));
    }
    if (over.length > 0 && (await this.#send(overMessage(over, context)))) {
      await this.#save(over.map((row) => Object.assign({}, row, { over_at: now })));
    }
  }

  async #save(rows: readonly SentAlert[]): Promise<void> {
    const { name, store } = this.#options;
    await store.write(rows);
    this.status.open = store.rows(name).filter(isOpen).length;
  }

  /** Returns false if the message was not accepted. */
  async #send(message: AlertMessage): Promise<boolean> {
    const { name: channel, settings, signal, clock, log, metrics, secrets } = this.#options;
    const about = { channel, count: message.count, title: message.title };
    const failed = await sendMessage(settings, message, signal);
    if (failed !== null && signal.aborted) return false;
    metrics.counters.messages.inc({ channel, result: failed === null ? 'sent' : 'failed' });
    if (failed === null) {
      log.info(about, 'alert sent');
      this.#failures = 0;
      Object.assign(this.status, { problem: null, since: null });
      return true;
    }
    const problem = scrubOwn(failed.problem, secrets);
    const waitMs = Math.max(failed.waitMs ?? 0, Math.min(MAX_RETRY_MS, MIN_RETRY_MS * 2 ** this.#failures));
    this.#failures += 1;
    this.#tryAt = clock.monotonic() + waitMs;
    Object.assign(this.status, { problem, since: this.status.since ?? clock.now() });
    const hint = `content-sync alerts test ${channel}`;
    log.warn({ ...about, problem, again_in_ms: waitMs, hint }, 'alert not sent');
    return false;
  }
}

/**
 * What the channels have reported, stored in the warehouse of the source that it is about, so that no restart and no
 * other process reports it again. What cannot be written now is written later.
 */
class AlertStore {
  readonly #options: AlertsOptions;
  /** By channel, source and alert, as last read of the sources that this process leads: commands write them too. */
  readonly #rows = new Map<string, SentAlert>();
  readonly #readSources = new Set<string>();
  readonly #unwritten = new Set<SentAlert>();

  constructor(options: AlertsOptions) {
    this.#options = options;
  }

  /** Reads the sources that this process leads; of one that cannot be read the last known rows count. Never rejects. */
  async read(): Promise<void> {
    for (const { name, isLeader, use } of this.#options.sources()) {
      const isLed = isLeader();
      const stored = isLed ? await use(({ own }) => readSentAlerts(own, name)).catch(() => null) : [];
      if (stored === null) continue;
      // Another process may have taken the lead meanwhile.
      this.#readSources[isLed && isLeader() ? 'add' : 'delete'](name);
      for (const [key, row] of this.#rows) if (row.source === name) this.#rows.delete(key);
      for (const row of [...stored, ...this.#unwritten]) this.#rows.set(rowKey(row), row);
    }
  }

  /** True if the rows of the source have been read. */
  has(source: string): boolean {
    return this.#readSources.has(source);
  }

  rows(channel: string): SentAlert[] {
    return [...this.#rows.values()].filter((row) => row.channel === channel);
  }

  /** Writes rows, and those that could not be written before. Never rejects. */
  async write(rows: readonly SentAlert[]): Promise<void> {
    for (const row of rows) {
      this.#rows.set(rowKey(row), row);
      this.#unwritten.add(row);
    }
    for (const { name, use } of this.#options.sources()) {
      const batch = [...this.#unwritten].filter(({ source }) => source === name);
      if (batch.length === 0) continue;
      try {
        await use((open) => open.apply(batch.flatMap((row) => saveSentAlert(open.own, row))));
        for (const row of batch) this.#unwritten.delete(row);
      } catch (error) {
        this.#options.log.warn({ source: name, error }, `sent alerts could not be stored: ${messageOf(error)}`);
      }
    }
  }
}

function rowKey(row: SentAlert): string {
  return `${row.channel}\n${alertKey(row)}`;
}

interface ReportOnceOptions extends Omit<AlertsOptions, 'snapshot' | 'sources' | 'metrics'> {
  sources: readonly SourceSettings[];
  version: string;
}

/**
 * Reports alerts once, at the end of a command; `serve` reports them all the time. Waits some seconds at most for receivers
 * that do not respond, and never throws for them. Excludes webhooks, which only `serve` receives.
 */
export async function reportAlertsOnce({ sources: all, version, ...options }: ReportOnceOptions): Promise<void> {
  await using opened = new AsyncDisposableStack();
  const { clock } = options;
  const metrics = createMetrics(version);
  opened.defer(() => metrics.close());
  const [sources, statuses]: [AlertSource[], SourceStatus[]] = [[], []];
  // One source after the other, so that few files are open.
  for (const source of all) {
    const use: AlertSource['use'] = async (work) => {
      const warehouse = await openWarehouse(source.warehouse, clock);
      return work(warehouse).finally(() => warehouse.close());
    };
    sources.push({ name: source.name, isLeader: () => true, use });
    statuses.push(await readStoredStatus(source, { ...options, metrics, read: use }));
  }
  const times = { at: clock.now(), started_at: clock.now() };
  const snapshot = { ...times, version, stopping: false, sources: statuses, refused: [] };
  const alerts = new Alerts({ ...options, metrics, snapshot: async () => snapshot, sources: () => sources });
  opened.defer(() => alerts.stop());
  await alerts.checkOnce();
}
