import { isDeepStrictEqual } from 'node:util';
import type { Logger } from 'pino';
import type { Clock } from '../../model/clock.ts';
import { messageOf } from '../../model/errors.ts';
import { repeatUntilAborted } from '../../model/waiting.ts';
import type { Metrics } from '../../observe/metrics.ts';
import { scrubOwn } from '../../observe/scrub.ts';
import type { AlertsSettings, ChannelSettings } from '../../config/alerts-schema.ts';
import type { Settings } from '../../config/settings.ts';
import type { AlertChannelStatus, StatusSnapshot } from '../status/snapshot.ts';
import { judge, type Judgement, NO_NOTES, planTelling, rememberBegun, type TellingInput } from './plan-telling.ts';
import { begunMessage, overMessage, type Message, sendMessage } from './message.ts';
import { keepTold, readTold, type ToldAlert } from '../../database/state/server-state.ts';
import type { Warehouse } from '../../database/warehouse.ts';

/** The channels, and the address of the page. */
interface AlertSettings {
  channels: AlertsSettings;
  /** Null if it is not known. */
  publicUrl: string | null;
}

export function alertSettings({ alerts, serve }: Pick<Settings, 'alerts' | 'serve'>): AlertSettings {
  return { channels: alerts, publicUrl: serve.public_url ?? null };
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
  metrics: Pick<Metrics, 'alerted'>;
}

/** Reports what goes wrong and when it has ended. Nothing waits for it. */
export interface Alerts {
  /** Checks the status from now on, every few seconds, as long as there are channels. */
  start(): void;
  /** Checks once, reports without a grace period, and resolves after each channel has accepted it or failed. */
  lookOnce(): Promise<void>;
  /** Applies other settings; channels whose settings are the same keep their state. */
  configure(settings: AlertSettings): void;
  status(): AlertChannelStatus[];
  /** Aborts requests in flight: their messages are sent after the next start. */
  stop(): Promise<void>;
}

const CHECK_INTERVAL_MS = 5_000;
/** Between two attempts at a channel that fails: twice as long each time. */
const MIN_RETRY_MS = 10_000;
const MAX_RETRY_MS = 600_000;
const FINE = { problem: null, since: null };

/** Sends nothing before it is started. */
export function createAlerts(options: AlertsOptions): Alerts {
  const { clock, log } = options;
  const memory = new AlertMemory(options);
  const stopping = new AbortController();
  const { signal } = stopping;
  const channels = new Map<string, ChannelLine>();
  const removed: ChannelLine[] = [];
  let publicUrl: string | null = null;
  let checking: Promise<void> = Promise.resolve();
  const failed = (error: unknown): void => log.warn({ error }, `alerts were deferred: ${messageOf(error)}`);

  function configure(settings: AlertSettings): void {
    publicUrl = settings.publicUrl;
    for (const [name, line] of channels) {
      if (isDeepStrictEqual(line.settings, settings.channels[name])) continue;
      removed.push(line);
      channels.delete(name);
    }
    for (const [name, own] of Object.entries(settings.channels)) {
      if (!channels.has(name)) channels.set(name, new ChannelLine({ ...options, name, settings: own, memory, signal }));
    }
  }

  async function check(isOnce: boolean): Promise<void> {
    if (channels.size === 0) return;
    const snapshot = await options.snapshot();
    await memory.read();
    const judgement = memory.known(judge(snapshot));
    for (const line of channels.values()) line.report(judgement, publicUrl, isOnce);
    if (isOnce) await Promise.all(Array.from(channels.values(), ({ idle }) => idle));
    await memory.write();
  }

  configure(options);
  return {
    start: () => {
      checking = repeatUntilAborted({ clock, everyMs: CHECK_INTERVAL_MS, signal, failed }, () => check(false));
    },
    lookOnce: () => check(true),
    configure,
    status: () => Array.from(channels.values(), (line) => line.status()),
    stop: async () => {
      stopping.abort();
      await checking;
      await Promise.all([...removed, ...channels.values()].map(({ idle }) => idle));
      await memory.write();
    },
  };
}

interface ChannelParts extends Omit<AlertsOptions, keyof AlertSettings> {
  name: string;
  settings: ChannelSettings;
  memory: AlertMemory;
  signal: AbortSignal;
}

/** One channel over time: what it reports, and how long it waits after a failure. */
class ChannelLine {
  readonly #parts: ChannelParts;
  #notes = NO_NOTES;
  #failures = 0;
  #tryAt = -Infinity;
  #status: Pick<AlertChannelStatus, 'problem' | 'since'> = FINE;
  #isBusy = false;
  /** Resolves once nothing is in flight. */
  idle = Promise.resolve();

  constructor(parts: ChannelParts) {
    this.#parts = parts;
  }

  get settings(): ChannelSettings {
    return this.#parts.settings;
  }

  status(): AlertChannelStatus {
    const { name, memory } = this.#parts;
    const open = memory.of(name).filter(({ alert, over_at }) => over_at === null && !alert.startsWith('schema_change'));
    return { channel: name, ...this.#status, open: open.length };
  }

  /** Reports what is to be reported, without the caller waiting; nothing while an earlier message is in flight. */
  report(judgement: Judgement, publicUrl: string | null, isOnce: boolean): void {
    if (this.#isBusy) return;
    this.#isBusy = true;
    const failed = (error: unknown): void =>
      this.#parts.log.warn({ error }, `alerts were deferred: ${messageOf(error)}`);
    this.idle = this.#report(judgement, publicUrl, isOnce)
      .catch(failed)
      .finally(() => (this.#isBusy = false));
  }

  async #report(judgement: Judgement, publicUrl: string | null, isOnce: boolean): Promise<void> {
    const { name: channel, settings, memory, clock, secrets } = this.#parts;
    const now = clock.now();
    const inputNow = (): TellingInput => {
      return { channel, settings, judgement, told: memory.of(channel), notes: this.#notes, now, isOnce };
    };
    const planned = planTelling(inputNow());
    await memory.read(new Set([...planned.begun, ...planned.over].map(({ source }) => source)));
    const input = inputNow();
    const { begun, over, keep, seen } = planTelling(input);
    this.#notes = { ...this.#notes, seen };
    memory.keep(keep);
    if (clock.monotonic() < this.#tryAt) return;
    const place = { now, publicUrl, scrub: (text: string) => scrubOwn(text, secrets) };
    if (begun.length > 0) {
      if (!(await this.#send(begunMessage(begun, place)))) return;
      this.#notes = { ...this.#notes, begunAt: now };
      memory.keep(rememberBegun(begun, input));
      await memory.write();
    }
    if (over.length > 0 && (await this.#send(overMessage(over, place)))) {
      this.#notes = { ...this.#notes, overAt: now };
      memory.keep(over.map((row) => Object.assign({}, row, { over_at: now })));
      await memory.write();
    }
  }

  /** Returns false if the message was not accepted. */
  async #send(message: Message): Promise<boolean> {
    const { name: channel, settings, signal, clock, log, metrics, secrets } = this.#parts;
    const about = { channel, count: message.count, title: message.title };
    const failed = await sendMessage(settings, message, signal);
    if (failed !== null && signal.aborted) return false;
    metrics.alerted(channel, failed === null ? 'sent' : 'failed');
    if (failed === null) {
      log.info(about, 'alert sent');
      this.#failures = 0;
      this.#status = FINE;
      return true;
    }
    const waitMs = Math.max(failed.waitMs ?? 0, Math.min(MAX_RETRY_MS, MIN_RETRY_MS * 2 ** this.#failures));
    const problem = scrubOwn(failed.problem, secrets);
    this.#failures += 1;
    this.#tryAt = clock.monotonic() + waitMs;
    this.#status = { ...this.#status, problem, since: this.#status.since ?? clock.now() };
    const hint = `content-sync alerts test ${channel}`;
    log.warn({ ...about, problem, again_in_ms: waitMs, hint }, 'alert not sent');
    return false;
  }
}

/** A source that alerts may be about. */
export interface AlertSource {
  name: string;
  /** True while this process is the one that reports its alerts. */
  isLed: () => boolean;
  /** Gives its warehouse to `work`. Rejects if it cannot be opened. */
  use: <T>(work: (warehouse: Warehouse) => Promise<T>) => Promise<T>;
}

/** What was reported of one source, by channel and alert. */
interface Remembered {
  isRead: boolean;
  rows: Map<string, ToldAlert>;
  /** Those of them that are not written yet. */
  changed: Map<string, ToldAlert>;
}

/**
 * What the channels have reported, kept in the warehouse of the source that it is about, so that no restart and no
 * other process reports it again. What cannot be written now is written later.
 */
class AlertMemory {
  readonly #remembered = new Map<string, Remembered>();
  readonly #sources: () => readonly AlertSource[];
  readonly #log: Logger;

  constructor({ sources, log }: { sources: () => readonly AlertSource[]; log: Logger }) {
    this.#sources = sources;
    this.#log = log;
  }

  /** Reads each source once; those in `again` once more, as another process may have reported of them. Never rejects. */
  async read(again: ReadonlySet<string> = new Set()): Promise<void> {
    for (const { name, isLed, use } of this.#sources()) {
      if (!isLed()) this.#remembered.delete(name);
      const of = this.#of(name);
      if (!isLed() || (of.isRead && !again.has(name))) continue;
      const stored = await use(({ own }) => readTold(own, name)).catch(() => null);
      if (stored === null) continue;
      // What is not written yet is newer than what is stored.
      of.rows = new Map([...stored.map((row) => [keyOfRow(row), row] as const), ...of.changed]);
      of.isRead = true;
    }
  }

  /** The part of a judgement that can be reported: of a source that was not read, only that it cannot be. */
  known({ conditions, readable, copied }: Judgement): Judgement {
    const sources = new Map(this.#sources().map((source) => [source.name, source]));
    const isLed = (name: string): boolean => sources.get(name)?.isLed() !== false;
    const isKnown = (name: string): boolean => isLed(name) && (!sources.has(name) || this.#of(name).isRead);
    return {
      conditions: conditions.filter(({ source, resource }) => (resource === null ? isLed(source) : isKnown(source))),
      readable: new Set([...readable].filter(isKnown)),
      copied: copied.filter(({ source }) => isKnown(source)),
    };
  }

  /** What a channel has reported of all sources. */
  of(channel: string): ToldAlert[] {
    const all = [...this.#remembered.values()].flatMap(({ rows }) => Array.from(rows.values()));
    return all.filter((row) => row.channel === channel);
  }

  keep(rows: readonly ToldAlert[]): void {
    for (const row of rows) {
      const of = this.#of(row.source);
      of.rows.set(keyOfRow(row), row);
      of.changed.set(keyOfRow(row), row);
    }
  }

  /** Writes what has changed; what cannot be written is tried again the next time. Never rejects. */
  async write(): Promise<void> {
    for (const { name: source, use } of this.#sources()) {
      const { changed, isRead } = this.#of(source);
      const batch = [...changed];
      if (batch.length === 0 || !isRead) continue;
      try {
        await use((open) => open.apply(batch.flatMap(([, row]) => keepTold(open.own, row))));
        // What changed again in the meantime is written the next time.
        for (const [key, row] of batch) if (changed.get(key) === row) changed.delete(key);
      } catch (error) {
        this.#log.warn({ source, error }, `alerts that were sent could not be stored: ${messageOf(error)}`);
      }
    }
  }

  #of(source: string): Remembered {
    const known = this.#remembered.get(source) ?? { isRead: false, rows: new Map(), changed: new Map() };
    this.#remembered.set(source, known);
    return known;
  }
}

function keyOfRow({ channel, alert }: ToldAlert): string {
  return `${channel}\n${alert}`;
}
