import type { Logger } from 'pino';
import type { Clock } from '../../model/clock.ts';
import type { Metrics } from '../../observe/metrics.ts';
import type { ChannelSettings } from '../../settings/alerts-schema.ts';
import type { AlertChannelStatus } from '../status/snapshot.ts';
import type { AlertMemory } from './alert-memory.ts';
import type { Channel } from './channels/channel.ts';
import type { Judgement } from './conditions.ts';
import { begunMessage, overMessage, type Message, type MessagePlace } from './message.ts';
import {
  NO_NOTES,
  planTelling,
  rememberBegun,
  type ChannelNotes,
  type Telling,
  type TellingInput,
} from './plan-telling.ts';

export interface LineOptions {
  name: string;
  settings: ChannelSettings;
  channel: Channel;
  memory: AlertMemory;
  /** Has the memory read again what was told of these sources. Never rejects. */
  reread: (sources: ReadonlySet<string>) => Promise<void>;
  /** Writes down what the memory holds. Never rejects. */
  remember: () => Promise<void>;
  clock: Clock;
  log: Logger;
  metrics: Pick<Metrics, 'alerted'>;
  /** Takes secrets out of a text. */
  scrub: (text: string) => string;
}

/** Between two attempts at a channel that does not take its messages: twice as long each time. */
const FIRST_WAIT_MS = 10_000;
const LONGEST_WAIT_MS = 600_000;

/** One channel over time: what it is told, and how long it is left alone after a failure. */
export class ChannelLine {
  readonly #options: LineOptions;
  #notes: ChannelNotes = NO_NOTES;
  #failures = 0;
  #tryAt = -Infinity;
  #problem: string | null = null;
  #since: number | null = null;
  #toldAt: number | null = null;
  #work: Promise<void> | null = null;

  constructor(options: LineOptions) {
    this.#options = options;
  }

  get settings(): ChannelSettings {
    return this.#options.settings;
  }

  status(): AlertChannelStatus {
    const { name, memory } = this.#options;
    const open = memory.of(name).filter(({ alert, over_at }) => over_at === null && !alert.startsWith('schema_change'));
    return { channel: name, problem: this.#problem, since: this.#since, last_told_at: this.#toldAt, open: open.length };
  }

  /** Tells what is to be told, beside the caller; while an earlier message is on its way, nothing. */
  look(judgement: Judgement, publicUrl: string | null, signal: AbortSignal, isOnce = false): void {
    this.#work ??= this.#tell({ judgement, isOnce }, publicUrl, signal).finally(() => (this.#work = null));
  }

  /** Resolves once nothing is on its way. */
  async idle(): Promise<void> {
    await this.#work;
  }

  async close(): Promise<void> {
    await this.#work;
    await this.#options.channel.close();
  }

  async #tell(
    asked: Pick<TellingInput, 'judgement' | 'isOnce'>,
    publicUrl: string | null,
    signal: AbortSignal,
  ): Promise<void> {
    const { name, settings, memory, remember, reread, clock, scrub } = this.#options;
    const now = clock.now();
    const planNow = (): Telling =>
      planTelling({ ...asked, channel: name, settings, told: memory.of(name), notes: this.#notes, now });
    const before = planNow();
    const concerned = new Set([...before.begun, ...before.over].map(({ source }) => source));
    if (concerned.size > 0) await reread(concerned);
    const plan = concerned.size > 0 ? planNow() : before;
    const told = memory.of(name);
    this.#notes = { ...this.#notes, seen: plan.seen };
    memory.keep(plan.keep);
    memory.forget(plan.forget);
    if (clock.monotonic() < this.#tryAt) return;
    const place: MessagePlace = { now, publicUrl, scrub };
    if (plan.begun.length > 0) {
      if (!(await this.#send(begunMessage(plan.begun, place), signal))) return;
      memory.keep(rememberBegun(plan.begun, { channel: name, told, now }));
      this.#notes = { ...this.#notes, begunAt: now };
      await remember();
    }
    if (plan.over.length > 0) {
      if (!(await this.#send(overMessage(plan.over, place), signal))) return;
      memory.keep(plan.over.map((row) => Object.assign({}, row, { over_at: now })));
      this.#notes = { ...this.#notes, overAt: now };
      await remember();
    }
  }

  /** Returns false if it was not taken. */
  async #send(message: Message, signal: AbortSignal): Promise<boolean> {
    const { name, channel, clock, log, metrics, scrub } = this.#options;
    const { title, count } = message;
    const failed = await channel.send(message, signal);
    if (signal.aborted && failed !== null) return false;
    metrics.alerted(name, failed === null ? 'sent' : 'failed');
    if (failed === null) {
      log.info({ channel: name, count, title }, 'alert sent');
      this.#failures = 0;
      this.#toldAt = clock.now();
      this.#problem = null;
      this.#since = null;
      return true;
    }
    const waitMs = Math.max(failed.waitMs ?? 0, Math.min(LONGEST_WAIT_MS, FIRST_WAIT_MS * 2 ** this.#failures));
    this.#failures += 1;
    this.#tryAt = clock.monotonic() + waitMs;
    this.#problem = scrub(failed.problem);
    this.#since ??= clock.now();
    const hint = `content-sync alerts test ${name}`;
    log.warn({ channel: name, count, title, problem: this.#problem, again_in_ms: waitMs, hint }, 'alert not sent');
    return false;
  }
}
