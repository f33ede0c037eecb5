import { expect } from 'vitest';
import type { Scheduler } from '../../../src/server/schedule/scheduler.ts';
import { HandClock } from '../../support/hand-clock.ts';
import { randomFrom, type Random } from '../../support/random.ts';
import { dailyTimes, everyMinutes } from './oracle.ts';
import { play, walkedAt, type Play, type PlayedRun } from './play.ts';

const ZONES = ['UTC', 'Europe/Vienna', 'America/New_York', 'Australia/Lord_Howe'] as const;
const MINUTE = 60_000;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;
/** From one tick to the next, and what a note may lie off. */
const SLACK = 2 * MINUTE + 5_000;
const LONGEST_BACKOFF = 15 * MINUTE;

/** A schedule, and its occurrences as the platform's calendar has them. */
const SCHEDULES = [
  { expression: '* * * * *', step: MINUTE, times: (zone: string, ...span: Span) => everyMinutes(zone, 1, ...span) },
  {
    expression: '*/10 * * * *',
    step: 10 * MINUTE,
    times: (zone: string, ...span: Span) => everyMinutes(zone, 10, ...span),
  },
  { expression: '0 * * * *', step: HOUR, times: (zone: string, ...span: Span) => everyMinutes(zone, 60, ...span) },
  { expression: '30 2 * * *', step: 25 * HOUR, times: (zone: string, ...span: Span) => dailyTimes(zone, 150, ...span) },
] as const;

type Span = [from: number, to: number];

/** Spring and autumn of the zones that change, and a day on which nothing happens. */
const STARTS = ['2026-03-08', '2026-03-28', '2026-04-04', '2026-10-03', '2026-10-24', '2026-11-01', '2026-06-15'];

/** One moment of a story, as an observer without a schedule notes it. */
interface Note {
  wall: number;
  real: number;
  isUp: boolean;
}

interface Story {
  clock: HandClock;
  played: Play;
  random: Random;
  notes: Note[];
  /** When a process began, by both clocks. */
  starts: { wall: number; real: number }[];
  /** How the wall's clock was moved, and when. */
  steps: { real: number; ms: number }[];
}

/** What the story is held against. */
interface Calendar {
  /** Wall and real zero. */
  from: number;
  occurrences: readonly number[];
  /** The longest time between two of them. */
  step: number;
  /** Names the story in a failure. */
  told: string;
}

/**
 * A few days of one resource in which the process goes down and comes back, runs fail, throw and take too long, and,
 * in every other story, the clock is moved by up to an hour. Then the notes are held against the calendar.
 */
export async function scheduleStory(seed: number): Promise<void> {
  const random = randomFrom(seed);
  const kind = random.pick(SCHEDULES);
  const zone = random.pick(ZONES);
  const isStepped = random.chance(0.5);
  const from = Date.parse(random.pick(STARTS)) + random.whole(0, 600) * MINUTE + random.whole(0, MINUTE);
  const clock = new HandClock(from);
  const played = play({
    clock,
    schedule: { incremental: kind.expression, timezone: zone, jitter: 0 },
    resources: { content: walkedAt(from) },
    course: () => courseOf(random),
  });
  const story: Story = { clock, played, random, notes: [], starts: [{ wall: from, real: 0 }], steps: [] };
  await tell(story, kind.step > HOUR ? 3 * DAY : 14 * HOUR, isStepped);
  const told = JSON.stringify({ seed, zone, schedule: kind.expression, steps: story.steps });
  const occurrences = kind.times(zone, from - DAY, from + 6 * DAY);
  const calendar = { from, occurrences, step: kind.step, told };
  expectOneAtATime(played.runs, told);
  for (const run of played.runs) expectNotTooMany(story, run, calendar);
  for (const note of story.notes) expectNotTooFew(story, note, calendar);
}

function courseOf(random: Random) {
  if (random.chance(0.03)) return { lasts: random.whole(0, 20) * MINUTE };
  if (random.chance(0.05)) return { throws: new Error('a bug') };
  if (random.chance(0.1)) return { status: 'failed', code: 'unreachable' } as const;
  return { lasts: random.whole(0, 20_000) };
}

async function tell(story: Story, length: number, isStepped: boolean): Promise<void> {
  const { clock, played, random } = story;
  let scheduler: Scheduler | null = played.scheduler;
  scheduler.start();
  // It has looked before anything happens.
  await clock.advance(1);
  while (clock.monotonic() < length) {
    if (isStepped && random.chance(0.004)) {
      const step = random.pick([-HOUR, HOUR, random.whole(-HOUR, 0), random.whole(-HOUR, HOUR)]);
      story.steps.push({ real: clock.monotonic(), ms: step });
      clock.step(step);
    }
    if (random.chance(scheduler === null ? 0.02 : 0.004)) {
      await scheduler?.stop();
      scheduler = scheduler === null ? played.restart() : null;
      scheduler?.start();
      if (scheduler !== null) story.starts.push({ wall: clock.now(), real: clock.monotonic() });
    }
    await clock.advance(random.whole(1, 60) * 1_000);
    story.notes.push({ wall: clock.now(), real: clock.monotonic(), isUp: scheduler !== null });
  }
  await scheduler?.stop();
}

function expectOneAtATime(runs: readonly PlayedRun[], told: string): void {
  for (const [at, run] of runs.entries()) {
    if (run.status === 'running' || run.began < (runs[at - 1]?.ended ?? 0)) expect.unreachable(`two at once: ${told}`);
  }
}

const isSuccess = ({ status }: PlayedRun): boolean => status === 'ok';

/** The last success before a real moment, by both clocks, and the occurrence that comes after it. */
function successBefore({ runs }: Play, real: number, { from, occurrences }: Calendar) {
  const last = runs.findLast((run) => isSuccess(run) && run.began < real && run.ended <= real);
  const success = last === undefined ? { wall: from, real: 0 } : { wall: last.endedAt, real: last.ended };
  const next = occurrences.find((at) => at > success.wall) ?? Infinity;
  return { ...success, next, gap: next - success.wall };
}

/** No run without an occurrence that no success has covered; behind a success in the future, none before its time. */
function expectNotTooMany({ played, starts }: Story, run: PlayedRun, calendar: Calendar): void {
  const success = successBefore(played, run.began, calendar);
  const start = starts.findLast(({ real }) => real >= success.real && real <= run.began);
  const age = start === undefined ? 0 : start.wall - success.wall;
  // A process that was not there can only go by how far ahead the success lies.
  const passed = age < 0 ? success.wall - run.beganAt : age + run.began - (start?.real ?? success.real);
  const mayRun = success.wall <= run.beganAt ? success.next <= run.beganAt : passed >= success.gap;
  const scene = `run at ${textOf(run.beganAt)}, success at ${textOf(success.wall)}, ${calendar.told}`;
  if (!mayRun) expect.unreachable(scene);
}

/** Where nothing has happened for a while, nothing may have been waiting. */
function expectNotTooFew({ played, starts, steps }: Story, note: Note, calendar: Calendar): void {
  const last = played.runs.findLast((run) => run.began <= note.real);
  const begun = starts.findLast((start) => start.real <= note.real)?.real ?? 0;
  const stepped = steps.findLast((step) => step.real <= note.real)?.real ?? 0;
  const quietSince = Math.max(begun, stepped, last?.ended ?? 0);
  if (!note.isUp || note.real - quietSince <= SLACK) return;
  const success = successBefore(played, note.real, calendar);
  const hasFailed = last !== undefined && !isSuccess(last) && last.began >= success.real;
  const allowed = hasFailed ? LONGEST_BACKOFF + SLACK : SLACK;
  if (note.real - quietSince <= allowed) return;
  const isLate = success.wall <= note.wall - allowed && success.next <= note.wall - allowed;
  const later = steps.filter(({ real }) => real >= success.real);
  // One step makes the wait no longer; of several, each may put it off.
  const moved = later.length <= 1 ? 0 : later.reduce((sum, { ms }) => sum + Math.abs(ms), 0);
  const longest = success.gap + calendar.step + moved + allowed;
  const isStuck = success.wall > note.wall && note.real - Math.max(success.real, begun) > longest;
  const scene = `quiet at ${textOf(note.wall)}, success at ${textOf(success.wall)}, ${calendar.told}`;
  if (isLate || isStuck) expect.unreachable(scene);
}

const textOf = (at: number): string => new Date(at).toISOString();
