// Sends alerts: each channel compares the status with what it has reported, every few seconds in `serve` or once after a
// sync, and sends what is new or over. What it has reported is stored in the warehouse of the source, so that a problem is
// not reported again after a restart, or by another process. `plan-alerts.ts` decides, `message.ts` writes and sends.
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
import { readStatusFromWarehouse } from '../status/collect.ts';
import type { AlertChannelStatus, SourceStatus, StatusSnapshot } from '../status/snapshot.ts';
import { type AlertMessage, begunMessage, overMessage } from './message.ts';
import { alertKey, type AlertState, findConditions, isOpen, planAlerts, reportedRows } from './plan-alerts.ts';
import { sendMessage } from './send-message.ts';

interface AlertSettings {
  channels: AlertsSettings;
  publicUrl: string | null;
}

export function alertSettings({ alerts, serve }: Settings): AlertSettings {
  return { channels: alerts, publicUrl: serve.public_url ?? null };
}

export interface AlertSource {
  name: string;
  /** True while this process, and no other, reports the alerts of the source. */
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
  /** Texts that must not be in a message; the list may grow. */
  secrets: readonly string[];
  metrics: Metrics;
}

const CHECK_INTERVAL_MS = 5_000;
/** The wait after a failed attempt, which doubles each time. */
const MIN_RETRY_MS = 10_000;
const MAX_RETRY_MS = 600_000;

/** Reports problems and their ends by all channels of the settings. A channel that fails does not delay the others. */
export class Alerts {
  readonly #options: AlertsOptions;
  readonly #stopping = new AbortController();
  readonly #channels: readonly AlertChannel[];
  #loops: Promise<void>[] = [];

  constructor(options: AlertsOptions) {
    this.#options = options;
    const { signal } = this.#stopping;
    this.#channels = Object.entries(options.channels).map(
      ([name, settings]) => new AlertChannel({ ...options, name, settings, signal }),
    );
  }

  /** Starts to check the status every few seconds. */
  start(): void {
    const { clock } = this.#options;
    const period = { clock, everyMs: CHECK_INTERVAL_MS, signal: this.#stopping.signal, failed: this.#logFailure };
    this.#loops = this.#channels.map((channel) => repeatUntilAborted(period, () => channel.check(false)));
  }

  /** Checks once, without waiting for further changes; resolves after each channel has accepted the message or failed. */
  async checkOnce(): Promise<void> {
    await Promise.all(this.#channels.map((channel) => channel.check(true).catch(this.#logFailure)));
  }

  status(): AlertChannelStatus[] {
    return this.#channels.map(({ status }) => ({ ...status }));
  }

  /** Aborts requests in flight; their messages are sent after the next start. */
  async stop(): Promise<void> {
    this.#stopping.abort();
    await Promise.all(this.#loops);
    await Promise.all(this.#channels.map((channel) => channel.save([])));
  }

  readonly #logFailure = (error: unknown): void =>
    this.#options.log.warn({ error }, `alerts were deferred: ${messageOf(error)}`);
}

interface ChannelOptions extends AlertsOptions {
  name: string;
  settings: ChannelSettings;
  signal: AbortSignal;
}

class AlertChannel {
  readonly status: AlertChannelStatus;
  readonly #options: ChannelOptions;
  /** What the channel has reported, by `alertKey`. It is read again in each check, because commands write it too. */
  readonly #reported = new Map<string, SentAlert>();
  /** Reported alerts that could not be stored yet. */
  readonly #unsaved = new Set<SentAlert>();
  /** Changes that wait for others, to be reported in one message (`AlertsInput`). */
  #pending: ReadonlyMap<string, number> = new Map();
  /** Failed attempts in a row. */
  #failures = 0;
  /** Monotonic milliseconds. */
  #nextAttemptAt = -Infinity;

  constructor(options: ChannelOptions) {
    this.#options = options;
    this.status = { channel: options.name, problem: null, since: null, open: 0 };
  }

  /** Compares the status with what was reported; sends one message for what is new or repeated, and one for what is over. */
  async check(isOnce: boolean): Promise<void> {
    const { name: channel, settings, clock, secrets, publicUrl, snapshot } = this.#options;
    const state = await this.#readReported(findConditions(await snapshot()));
    const now = clock.now();
    const reported = [...this.#reported.values()];
    const input = { channel, settings, state, reported, pending: this.#pending, now, isOnce };
    const { begun, over, keep, pending } = planAlerts(input);
    this.#pending = pending;
    await this.save(keep);
    if (clock.monotonic() < this.#nextAttemptAt) return;
    const context = { now, publicUrl, scrub: (text: string) => scrubOwn(text, secrets) };
    if (begun.length > 0) {
      if (!(await this.#send(begunMessage(begun, context)))) return;
      await this.save(reportedRows(begun, input));
    }
    if (over.length > 0 && (await this.#send(overMessage(over, context)))) {
      await this.save(over.map((row) => Object.assign({}, row, { over_at: now })));
    }
  }

  /** Stores reported alerts, and those that could not be stored before. Never rejects. */
  async save(rows: readonly SentAlert[]): Promise<void> {
    for (const row of rows) {
      this.#reported.set(alertKey(row), row);
      this.#unsaved.add(row);
    }
    this.status.open = [...this.#reported.values()].filter(isOpen).length;
    for (const { name, use } of this.#options.sources()) {
      const batch = [...this.#unsaved].filter(({ source }) => source === name);
      if (batch.length === 0) continue;
      try {
        await use((open) => open.apply(batch.flatMap((row) => saveSentAlert(open.own, row))));
        for (const row of batch) this.#unsaved.delete(row);
      } catch (error) {
        this.#options.log.warn({ source: name, error }, `sent alerts could not be stored: ${messageOf(error)}`);
      }
    }
  }

  /**
   * Reads what the channel has reported of the sources that this process leads, and returns the part of the state that it
   * may report. Of a source whose warehouse cannot be read, that is only the problem of the source itself.
   */
  async #readReported({ conditions, knownSources, copied }: AlertState): Promise<AlertState> {
    const unread = new Set<string>();
    const ledElsewhere = new Set<string>();
    for (const { name, isLeader, use } of this.#options.sources()) {
      const stored = isLeader() ? await use(({ own }) => readSentAlerts(own, name)).catch(() => null) : [];
      // Another process may have taken the lead meanwhile.
      if (!isLeader()) ledElsewhere.add(name);
      if (stored === null || !isLeader()) unread.add(name);
      if (stored === null) continue;
      for (const [key, { source }] of this.#reported) if (source === name) this.#reported.delete(key);
      const rows = [...stored, ...this.#unsaved].filter((row) => row.source === name);
      for (const row of rows) if (row.channel === this.#options.name) this.#reported.set(alertKey(row), row);
    }
    return {
      conditions: conditions.filter(({ source, resource }) => !(resource === null ? ledElsewhere : unread).has(source)),
      knownSources: new Set([...knownSources].filter((source) => !unread.has(source))),
      copied: copied.filter(({ source }) => !unread.has(source)),
    };
  }

  /** Sends a message. Returns false if the receiver did not accept it; then the next attempt waits. */
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
    this.#nextAttemptAt = clock.monotonic() + waitMs;
    Object.assign(this.status, { problem, since: this.status.since ?? clock.now() });
    const hint = `content-sync config alerts test ${channel}`;
    log.warn({ ...about, problem, again_in_ms: waitMs, hint }, 'alert not sent');
    return false;
  }
}

interface ReportOnceOptions extends Omit<AlertsOptions, 'snapshot' | 'sources' | 'metrics'> {
  sources: readonly SourceSettings[];
  version: string;
}

/**
 * Reports alerts once, at the end of a command. Waits for a receiver that does not respond for a few seconds, and does not
 * throw. Excludes alerts of webhooks, which only `serve` receives.
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
    statuses.push(await readStatusFromWarehouse(source, { ...options, metrics, read: use }));
  }
  const times = { at: clock.now(), started_at: clock.now() };
  const snapshot = { ...times, version, stopping: false, sources: statuses, refused: [] };
  const alerts = new Alerts({ ...options, metrics, snapshot: async () => snapshot, sources: () => sources });
  opened.defer(() => alerts.stop());
  await alerts.checkOnce();
}
