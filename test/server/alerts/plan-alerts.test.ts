import { describe, expect, it } from 'vitest';
import type { ChannelSettings } from '../../../src/config/alerts-schema.ts';
import type { SentAlert } from '../../../src/database/state/server-state.ts';
import {
  alertKey,
  type AlertState,
  type Condition,
  planAlerts,
  reportedRows,
} from '../../../src/server/alerts/plan-alerts.ts';
import { channelWith, conditionOf, START } from './alert-samples.ts';

const STEP_MS = 5_000;

const NONE: Condition[] = [];

/** The size of one message, and the minute in which it was sent. */
interface SentAt {
  minute: number;
  begun: number;
  over: number;
}

/** A channel over time, without a clock. Each message is accepted; `restart` forgets what only a process knows. */
class AlertStory {
  readonly messages: SentAt[] = [];
  readonly settings: ChannelSettings;
  unread = false;
  copied: AlertState['copied'] = [];
  readonly #sources = new Set(['blog']);
  #told = new Map<string, SentAlert>();
  #pending: ReadonlyMap<string, number> = new Map();
  #ms = 0;

  constructor(settings: ChannelSettings) {
    this.settings = settings;
  }

  get minute(): number {
    return this.#ms / 60_000;
  }

  restart(): void {
    this.#pending = new Map();
  }

  /** Goes on until that minute. */
  until(minute: number, conditions: (minute: number) => readonly Condition[]): void {
    for (; this.#ms < minute * 60_000; this.#ms += STEP_MS) this.look(conditions(this.minute));
  }

  /** Looks once; `isOnce` as a run from cron does. */
  look(conditions: readonly Condition[], isOnce = false): void {
    const now = START + this.#ms;
    for (const { source } of conditions) this.#sources.add(source);
    const knownSources = this.unread ? new Set<string>() : this.#sources;
    const state = { conditions: this.unread ? [] : [...conditions], knownSources, copied: this.copied };
    const reported = [...this.#told.values()];
    const input = { channel: 'ops', settings: this.settings, state, reported, pending: this.#pending, now, isOnce };
    const { begun, over, keep, pending } = planAlerts(input);
    this.#pending = pending;
    this.#remember(keep);
    this.#remember(reportedRows(begun, input));
    this.#remember(over.map((row) => Object.assign({}, row, { over_at: now })));
    if (begun.length > 0) this.messages.push({ minute: this.minute, begun: begun.length, over: 0 });
    if (over.length > 0) this.messages.push({ minute: this.minute, begun: 0, over: over.length });
  }

  #remember(rows: readonly SentAlert[]): void {
    for (const row of rows) this.#told.set(alertKey(row), row);
  }
}

/** The messages of a day in which a condition comes and goes every ten minutes. */
function comingAndGoing(fields: Record<string, unknown>): SentAt[] {
  const story = new AlertStory(channelWith(fields));
  story.until(24 * 60, (minute) => (minute % 20 < 10 ? [conditionOf()] : NONE));
  story.until(24 * 60 + 20, () => NONE);
  return story.messages;
}

function many(sources: number, resources: number): Condition[] {
  return Array.from({ length: sources * resources }, (_, n) =>
    conditionOf({ source: `s${Math.floor(n / resources)}`, resource: `r${n % resources}` }),
  );
}

describe('what a channel reports', () => {
  it('comes together: an account with 20 resources, or 100 sources that fail within a minute, are one message', () => {
    const story = new AlertStory(channelWith());
    const all = many(100, 3);
    story.until(60, (minute) => all.slice(0, Math.floor(minute * 300)));
    story.until(120, () => NONE);
    expect(story.messages).toMatchObject([
      { begun: 300, over: 0 },
      { begun: 0, over: 300 },
    ]);
    expect(story.messages[0]?.minute).toBeLessThan(2);
  });

  it('is told once, however often the process starts, and once that it is over', () => {
    const story = new AlertStory(channelWith());
    for (let minute = 10; minute <= 60; minute += 10) {
      story.until(minute, () => [conditionOf()]);
      story.restart();
    }
    story.until(90, () => NONE);
    story.restart();
    story.until(120, () => NONE);
    expect(story.messages).toMatchObject([
      { begun: 1, over: 0 },
      { begun: 0, over: 1 },
    ]);
  });

  it('that comes and goes is told once an hour, or once in `repeat`, and when it is over', () => {
    // 72 times it came and 72 times it went.
    const hourly = comingAndGoing({});
    expect(hourly.filter(({ begun }) => begun > 0)).toHaveLength(24);
    expect(hourly).toHaveLength(48);
    expect(comingAndGoing({ repeat: '6h' })).toHaveLength(8);
    expect(hourly.at(-1)).toMatchObject({ over: 1 });
  });

  it('is not over because the warehouse cannot be read', () => {
    const story = new AlertStory(channelWith());
    story.until(5, () => [conditionOf()]);
    story.unread = true;
    story.until(60, () => [conditionOf()]);
    story.unread = false;
    story.until(65, () => [conditionOf()]);
    expect(story.messages).toMatchObject([{ begun: 1 }]);
  });

  it('is told again after `repeat`, where that is set', () => {
    const story = new AlertStory(channelWith({ repeat: '4h' }));
    story.until(13 * 60, () => [conditionOf()]);
    story.until(24 * 60, () => NONE);
    expect(story.messages).toMatchObject([{ begun: 1 }, { begun: 1 }, { begun: 1 }, { begun: 1 }, { over: 1 }]);
  });

  it.each<[string, Record<string, unknown>, Condition, number]>([
    ['another kind', { on: ['overdue'] }, conditionOf(), 0],
    ['another source', { sources: ['shop'] }, conditionOf(), 0],
    ['its source', { sources: ['blog'] }, conditionOf(), 1],
    ['as many rejects as may be', { rejects_above: 100 }, conditionOf({ kind: 'rejects', count: 100 }), 0],
    ['one more', { rejects_above: 100 }, conditionOf({ kind: 'rejects', count: 101 }), 1],
  ])('is only what it asks for: %s', (_, fields, condition, expected) => {
    const story = new AlertStory(channelWith(fields));
    story.until(10, () => [condition]);
    expect(story.messages).toHaveLength(expected);
  });

  it('has changed tables once and without an end, and none of before it began to look', () => {
    const story = new AlertStory(channelWith());
    story.until(5, () => [change(-60)]);
    story.copied = [{ source: 'blog', resource: 'content', lastChangeAt: change(-60).since }];
    story.until(10, () => [change(-60)]);
    expect(story.messages).toEqual([]);
    story.until(30, () => [change(-60), change(10), change(10.1)]);
    story.restart();
    story.until(40, () => [change(-60), change(10), change(10.1)]);
    story.until(60, () => NONE);
    expect(story.messages).toMatchObject([{ begun: 2 }]);
  });

  it('waits for nothing in a process that looks once and ends, and does not flood from there either', () => {
    const story = new AlertStory(channelWith());
    for (let run = 0; run < 144; run += 1) {
      story.restart();
      story.look(run % 2 === 0 ? [conditionOf()] : NONE, true);
      story.until((run + 1) * 10, () => (run % 2 === 0 ? [conditionOf()] : NONE));
    }
    expect(story.messages.slice(0, 2)).toMatchObject([
      { minute: 0, begun: 1 },
      { minute: 10, over: 1 },
    ]);
    expect(story.messages.length).toBeLessThanOrEqual(48);
  });
});

/** A changed table, so many minutes after the story begins. */
function change(minute: number): Condition {
  return conditionOf({ kind: 'schema_change', since: Date.parse('2026-11-20T08:00:00Z') + minute * 60_000 });
}
