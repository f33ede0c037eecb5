import {
  type Condition,
  type Judgement,
  NO_NOTES,
  keyOf,
  planTelling,
  rememberBegun,
  type ChannelNotes,
} from '../../../src/server/alerts/plan-telling.ts';
import type { ToldAlert } from '../../../src/database/state/server-state.ts';
import { alertsSchema, type ChannelSettings } from '../../../src/config/alerts-schema.ts';

const START = Date.parse('2026-11-20T08:00:00Z');
const STEP_MS = 5_000;

/** Settings of a channel, as a config would have them. */
export function channelWith(fields: Record<string, unknown> = {}): ChannelSettings {
  const usual = fields['type'] === 'email' ? {} : { type: 'post', url: 'http://127.0.0.1:9/' };
  const { ops } = alertsSchema.parse({ ops: { ...usual, ...fields } });
  if (ops === undefined) throw new Error('no channel');
  return ops;
}

export function conditionOf(fields: Partial<Condition> = {}): Condition {
  const usual = { kind: 'failed', source: 'blog', resource: 'content', since: START, what: 'it failed' } as const;
  return { ...usual, next: null, command: null, cause: 'unreachable', count: 1, detail: '', ...fields };
}

/** What one message told of, at a minute of the story. */
export interface ToldAt {
  minute: number;
  begun: number;
  over: number;
}

/**
 * A channel over time, without a clock: every few seconds `conditions` says what there is, and each message is taken.
 * `restart` forgets what only a process knows.
 */
export class TellingStory {
  readonly messages: ToldAt[] = [];
  readonly settings: ChannelSettings;
  unread = false;
  copied: Judgement['copied'] = [];
  readonly #sources = new Set(['blog']);
  #told = new Map<string, ToldAlert>();
  #notes: ChannelNotes = NO_NOTES;
  #ms = 0;

  constructor(settings: ChannelSettings) {
    this.settings = settings;
  }

  get minute(): number {
    return this.#ms / 60_000;
  }

  restart(): void {
    this.#notes = NO_NOTES;
  }

  /** Goes on until that minute. */
  until(minute: number, conditions: (minute: number) => readonly Condition[]): void {
    for (; this.#ms < minute * 60_000; this.#ms += STEP_MS) this.look(conditions(this.minute));
  }

  /** Looks once; `isOnce` as a run from cron does. */
  look(conditions: readonly Condition[], isOnce = false): void {
    const now = START + this.#ms;
    for (const { source } of conditions) this.#sources.add(source);
    const readable = this.unread ? new Set<string>() : this.#sources;
    const judgement = { conditions: this.unread ? [] : [...conditions], readable, copied: this.copied };
    const told = [...this.#told.values()];
    const input = { channel: 'ops', settings: this.settings, judgement, told, notes: this.#notes, now, isOnce };
    const { begun, over, keep, seen } = planTelling(input);
    this.#notes = { ...this.#notes, seen };
    this.#remember(keep);
    if (begun.length > 0) this.#notes = { ...this.#notes, begunAt: now };
    if (over.length > 0) this.#notes = { ...this.#notes, overAt: now };
    this.#remember(rememberBegun(begun, input));
    this.#remember(over.map((row) => Object.assign({}, row, { over_at: now })));
    if (begun.length > 0) this.messages.push({ minute: this.minute, begun: begun.length, over: 0 });
    if (over.length > 0) this.messages.push({ minute: this.minute, begun: 0, over: over.length });
  }

  #remember(rows: readonly ToldAlert[]): void {
    for (const row of rows) this.#told.set(keyOf(row.source, row.alert), row);
  }
}
