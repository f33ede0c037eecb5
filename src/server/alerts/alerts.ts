import type { Logger } from 'pino';
import type { AlertsSettings, ChannelSettings } from '../../config/alerts-schema.ts';
import type { Settings, SourceSettings } from '../../config/settings.ts';
import { openWarehouse } from '../../database/databases.ts';
import { keepTold, readTold, type ToldAlert } from '../../database/state/alerts-told.ts';
import type { Warehouse } from '../../database/warehouse.ts';
import type { Clock } from '../../model/clock.ts';
import { messageOf } from '../../model/errors.ts';
import { repeatUntilAborted } from '../../model/waiting.ts';
import { createMetrics, type Metrics } from '../../observe/metrics.ts';
import { scrubOwn } from '../../observe/scrub.ts';
import { readStatusOnce } from '../status/collect.ts';
import type { AlertChannelStatus, SourceStatus, StatusSnapshot } from '../status/snapshot.ts';
import { storedParts } from '../status/source-status.ts';
import { begunMessage, type Message, overMessage, sendMessage } from './message.ts';
import { judge, type Judgement, NO_NOTES, planAlerts, reportedRows } from './plan-alerts.ts';

/** The channels, and the address of the page. */
interface AlertSettings {
  channels: AlertsSettings;
  /** Null if it is not known. */
  publicUrl: string | null;
}

export function alertSettings({ alerts, serve }: Settings): AlertSettings {
  return { channels: alerts, publicUrl: serve.public_url ?? null };
}

/** A source that alerts may be about. */
export interface AlertSource {
  name: string;
  /** True while this process is the one that reports its alerts. */
  isLed: () => boolean;
  /** Passes its warehouse to `work`. Rejects if it cannot be opened. */
  use: <T>(work: (warehouse: Warehouse) => Promise<T>) => Promise<T>;
}

export interface AlertsOptions extends AlertSettings {
  /** The current status, as the page shows it. */
  snapshot: () => Promise<StatusSnapshot>;
  /** The current sources. */
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

/** Reports problems and their ends. Nothing waits for it. */
export class Alerts {
  readonly #options: AlertsOptions;
  readonly #stopping = new AbortController();
  readonly #store: AlertStore;
  #channels: readonly AlertChannel[] = [];
  /** Resolves once the channels of earlier settings are idle. */
  #replaced: Promise<unknown> = Promise.resolve();
  #checking: Promise<void> = Promise.resolve();

  constructor(options: AlertsOptions) {
    this.#options = options;
    this.#store = new AlertStore(options);
    this.configure(options);
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
    await Promise.all(this.#channels.map(({ idle }) => idle));
  }

  /** Applies other settings. The store remembers what the channels have reported. */
  configure({ channels, publicUrl }: AlertSettings): void {
    this.#replaced = Promise.all([this.#replaced, ...this.#channels.map(({ idle }) => idle)]);
    const shared = { ...this.#options, publicUrl, store: this.#store, signal: this.#stopping.signal };
    this.#channels = Object.entries(channels).map(
      ([name, settings]) => new AlertChannel({ ...shared, name, settings }),
    );
  }

  status(): AlertChannelStatus[] {
    return this.#channels.map((channel) => channel.status());
  }

  /** Aborts requests in flight: their messages are sent after the next start. */
  async stop(): Promise<void> {
    this.#stopping.abort();
    await this.#checking;
    await Promise.all([this.#replaced, ...this.#channels.map(({ idle }) => idle)]);
    await this.#store.write();
  }

  async #check(isOnce: boolean): Promise<void> {
    if (this.#channels.length === 0) return;
    const found = judge(await this.#options.snapshot());
    const judgement = this.#store.reportable(found, await this.#store.read());
    for (const channel of this.#channels) channel.report(judgement, isOnce);
    await this.#store.write();
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
  /** Resolves once nothing is in flight. */
  idle = Promise.resolve();
  readonly #options: ChannelOptions;
  #notes = NO_NOTES;
  #failures = 0;
  #tryAt = -Infinity;
  #problem: string | null = null;
  #since: number | null = null;
  #isBusy = false;

  constructor(options: ChannelOptions) {
    this.#options = options;
  }

  status(): AlertChannelStatus {
    const { name: channel, store } = this.#options;
    const isOpen = ({ alert, over_at }: ToldAlert): boolean => over_at === null && !alert.startsWith('schema_change');
    const open = store.rowsOf(channel).filter(isOpen).length;
    return { channel, problem: this.#problem, since: this.#since, open };
  }

  /** Reports without the caller waiting; does nothing while an earlier message is in flight. */
  report(judgement: Judgement, isOnce: boolean): void {
    if (this.#isBusy) return;
    this.#isBusy = true;
    this.idle = this.#report(judgement, isOnce).finally(() => (this.#isBusy = false));
  }

  async #report(judgement: Judgement, isOnce: boolean): Promise<void> {
    const { name: channel, settings, store, clock, secrets, publicUrl } = this.#options;
    const now = clock.now();
    const input = { channel, settings, judgement, told: store.rowsOf(channel), notes: this.#notes, now, isOnce };
    const { begun, over, keep, seen } = planAlerts(input);
    this.#notes = { ...this.#notes, seen };
    store.keep(keep);
    if (clock.monotonic() < this.#tryAt) return;
    const context = { now, publicUrl, scrub: (text: string) => scrubOwn(text, secrets) };
    if (begun.length > 0) {
      if (!(await this.#send(begunMessage(begun, context)))) return;
      this.#notes = { ...this.#notes, begunAt: now };
      store.keep(reportedRows(begun, input));
      await store.write();
    }
    if (over.length > 0 && (await this.#send(overMessage(over, context)))) {
      this.#notes = { ...this.#notes, overAt: now };
      store.keep(over.map((row) => Object.assign({}, row, { over_at: now })));
      await store.write();
    }
  }

  /** Returns false if the message was not accepted. */
  async #send(message: Message): Promise<boolean> {
    const { name: channel, settings, signal, clock, log, metrics, secrets } = this.#options;
    const about = { channel, count: message.count, title: message.title };
    const failed = await sendMessage(settings, message, signal);
    if (failed !== null && signal.aborted) return false;
    metrics.alerted(channel, failed === null ? 'sent' : 'failed');
    this.#problem = failed && scrubOwn(failed.problem, secrets);
    if (failed === null) {
      log.info(about, 'alert sent');
      [this.#failures, this.#since] = [0, null];
      return true;
    }
    const waitMs = Math.max(failed.waitMs ?? 0, Math.min(MAX_RETRY_MS, MIN_RETRY_MS * 2 ** this.#failures));
    this.#failures += 1;
    this.#tryAt = clock.monotonic() + waitMs;
    this.#since ??= clock.now();
    const hint = `content-sync alerts test ${channel}`;
    log.warn({ ...about, problem: this.#problem, again_in_ms: waitMs, hint }, 'alert not sent');
    return false;
  }
}

/**
 * What the channels have reported, stored in the warehouse of the source that it is about, so that no restart and no
 * other process reports it again. What cannot be written now is written later.
 */
class AlertStore {
  /** By source; of each, by channel and alert. */
  readonly #rows = new Map<string, Map<string, ToldAlert>>();
  readonly #unwritten = new Set<ToldAlert>();
  readonly #options: AlertsOptions;
  /** Grows with each row that is kept or written. */
  #changes = 0;

  constructor(options: AlertsOptions) {
    this.#options = options;
  }

  /** Reads the led sources, and returns the names of those that could be read. Never rejects. */
  async read(): Promise<ReadonlySet<string>> {
    const readable = new Set<string>();
    for (const { name, isLed, use } of this.#options.sources()) {
      let stored: ToldAlert[] | null = [];
      for (let changes = -1; isLed() && stored !== null && changes !== this.#changes;) {
        // A channel that keeps rows in the meantime makes what was read out of date.
        changes = this.#changes;
        stored = await use(({ own }) => readTold(own, name)).catch(() => null);
      }
      if (stored === null) continue;
      if (isLed()) readable.add(name);
      // What is not written yet is newer than what is stored.
      const unwritten = [...this.#unwritten].filter(({ source }) => source === name);
      this.#rows.set(name, new Map([...stored, ...unwritten].map((row) => [rowKey(row), row])));
    }
    return readable;
  }

  /** The part of a judgement that can be reported: of a source that was not read, only that it cannot be. */
  reportable({ conditions, readable, copied }: Judgement, read: ReadonlySet<string>): Judgement {
    const led = new Map(this.#options.sources().map(({ name, isLed }) => [name, isLed()]));
    const isKnown = (name: string): boolean => read.has(name) || !led.has(name);
    return {
      conditions: conditions.filter(({ source, resource }) =>
        resource === null ? led.get(source) !== false : isKnown(source),
      ),
      readable: new Set([...readable].filter(isKnown)),
      copied: copied.filter(({ source }) => isKnown(source)),
    };
  }

  /** What a channel has reported of all sources. */
  rowsOf(channel: string): ToldAlert[] {
    const all = [...this.#rows.values()].flatMap((rows) => Array.from(rows.values()));
    return all.filter((row) => row.channel === channel);
  }

  keep(rows: readonly ToldAlert[]): void {
    for (const row of rows) {
      const known = this.#rows.get(row.source) ?? new Map<string, ToldAlert>();
      this.#rows.set(row.source, known);
      const before = known.get(rowKey(row));
      if (before !== undefined) this.#unwritten.delete(before);
      known.set(rowKey(row), row);
      this.#unwritten.add(row);
      this.#changes += 1;
    }
  }

  /** Writes what has changed; what cannot be written is tried again the next time. Never rejects. */
  async write(): Promise<void> {
    for (const { name, use } of this.#options.sources()) {
      const rows = [...this.#unwritten].filter(({ source }) => source === name);
      if (rows.length === 0) continue;
      try {
        await use((open) => open.apply(rows.map((row) => keepTold(open.own, row))));
        for (const row of rows) this.#unwritten.delete(row);
        this.#changes += 1;
      } catch (error) {
        this.#options.log.warn({ source: name, error }, `sent alerts could not be stored: ${messageOf(error)}`);
      }
    }
  }
}

function rowKey({ channel, alert }: ToldAlert): string {
  return `${channel}\n${alert}`;
}

interface ReportOnceOptions extends Omit<AlertsOptions, 'snapshot' | 'sources' | 'metrics'> {
  sources: readonly SourceSettings[];
  version: string;
}

/**
 * Reports what a command leaves behind, once, and when it has ended, as `serve` does. Waits some seconds at most for
 * receivers that do not answer, and never throws for them. Only `serve` knows about webhooks.
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
    sources.push({ name: source.name, isLed: () => true, use });
    statuses.push(
      await readStatusOnce(await storedParts(source, { ...options, metrics, read: use, inbox: null }), clock),
    );
  }
  const times = { at: clock.now(), started_at: clock.now() };
  const snapshot = { ...times, version, stopping: false, sources: statuses, refused: [], settings: null };
  const alerts = new Alerts({ ...options, metrics, snapshot: async () => snapshot, sources: () => sources });
  opened.defer(() => alerts.stop());
  await alerts.checkOnce();
}
