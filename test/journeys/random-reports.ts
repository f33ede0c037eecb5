import { expect } from 'vitest';
import { SyncError } from '../../src/model/errors.ts';
import { timeZone } from '../../src/model/time-zone.ts';
import type { TestDatabase } from '../support/databases.ts';
import { randomFrom, type Random } from '../support/random.ts';
import { nextDay, reportService, reportStage, type Figure, type ReportService } from '../support/report-service.ts';

const HOUR = 3_600_000;
const DAY = 24 * HOUR;

/** Zones, and a day shortly before their clocks are put forward or back: days of 23 and 25 hours, and one at midnight. */
const PLACES = [
  ['UTC', '2026-02-25'],
  ['Europe/Zurich', '2026-03-26'],
  ['Europe/Zurich', '2026-10-22'],
  ['America/New_York', '2026-03-05'],
  ['America/Santiago', '2026-09-03'],
  ['Pacific/Auckland', '2026-09-24'],
  ['+05:45', '2026-12-29'],
] as const;

/**
 * A service of reports that restates by a seed what may still change, adds late and early rows, fails, is capped and has
 * days of any zone, copied by runs of which some are stopped: after one quiet run the copy is what the service has.
 */
export async function randomReports(database: TestDatabase, seed: number): Promise<void> {
  const random = randomFrom(seed);
  const [zone, begins] = random.pick(PLACES);
  const restateDays = random.whole(1, 4);
  const most = random.chance(0.5) ? random.whole(12, 40) : null;
  const world = new World(random, { zone, begins, restateDays });
  const { reports } = world;
  reports.behaviour.refusesTomorrow = random.chance(0.4);
  if (most !== null) reports.behaviour.cap = most;
  // A window that is full would be capped for ever: days stay below that.
  world.mostPerDay = most === null ? 15 : most - 1;
  if (random.chance(0.3)) {
    reports.behaviour.largest = { days: random.whole(1, 6), status: 413 };
  }
  const isMoment = random.chance(0.5);
  if (isMoment) reports.behaviour.written = (figure) => momentOf(figure, zone);
  const stage = await reportStage(
    database,
    reports,
    {
      start: begins,
      zone,
      restate: `${restateDays * 24}h`,
      largest: `${random.whole(1, 12)}d`,
      most,
      ...(reports.behaviour.largest === undefined ? {} : { too_large: { status: [413] } }),
      ...(random.chance(0.5) ? {} : { totals: {} }),
    },
    {
      fields: {
        page: { style: 'cursor', size: random.whole(3, 30) },
        history: random.pick(['all', 'latest', 'none']),
      },
      source: { deletes: { max_part: 1, max_rows: 100_000 } },
    },
  );
  for (let day = 0; day < 6; day += 1) world.report();
  for (let step = random.whole(8, 14); step > 0; step -= 1) {
    world.change();
    reports.now += random.whole(1, 30) * HOUR;
    world.report();
    if (random.chance(0.7)) await oneRun(stage, world);
  }
  reports.behaviour.fails = () => null;
  reports.now += HOUR;
  // A walk that is taken up does not ask again for what was final when it was fetched.
  if (world.hasLate && world.isUnfinished) await stage.walk('backfill');
  reports.now += HOUR;
  const last = await stage.walk(world.hasLate ? 'backfill' : 'sync');
  expect({ seed, status: last.status, warnings: last.warnings, error: last.error }).toEqual({ seed, status: 'ok' });
  expect({ seed, unlike: await stage.unlike() }).toEqual({ seed, unlike: [] });
  await expectRemembered(stage, seed);
  // Versions, tombstones and child tables agree with the rows.
  const { code, stdout } = await stage.command('verify', '--internal', 'report');
  expect({ seed, code, stdout }).toEqual({ seed, code: 0, stdout: expect.any(String) });
}

type Stage = Awaited<ReturnType<typeof reportStage>>;

/** A run that may be stopped after some requests, or meet failures. */
async function oneRun(stage: Stage, world: World): Promise<void> {
  const { random, reports } = world;
  const stop = new AbortController();
  const isStopped = random.chance(0.3);
  let left = isStopped ? random.whole(1, 6) : Infinity;
  reports.behaviour.before = () => {
    left -= 1;
    if (left === 0) stop.abort(new SyncError('interrupted', 'stopped by the test', { recovery: 'stop' }));
  };
  reports.behaviour.fails = () => (random.chance(0.03) ? 503 : null);
  const command = random.chance(0.25) ? 'backfill' : 'sync';
  const { status, mode, error } = await stage.walk(command, { signal: stop.signal });
  expect({ status, error }).toEqual({
    status: expect.stringMatching(/^(ok|interrupted)$/),
    error: status === 'ok' ? undefined : expect.anything(),
  });
  world.walked(status === 'ok', mode === 'full');
  delete reports.behaviour.before;
}

/** What is remembered of each window is what stands there. */
async function expectRemembered(stage: Stage, seed: number): Promise<void> {
  const windows = await stage.windows();
  const rows = windows.reduce((sum, window) => sum + window.rows, 0);
  expect({ seed, rows }).toEqual({ seed, rows: stage.reports.figures.size });
}

/** The service's figures, and how they change. */
class World {
  readonly random: Random;
  readonly reports: ReportService;
  /** True if what changed was past restating, which only a full walk finds. */
  hasLate = false;
  /** True if the last run was stopped. */
  isUnfinished = false;
  mostPerDay = 15;
  readonly #zone: string;
  readonly #begins: string;
  readonly #restate: number;

  constructor(random: Random, { zone, begins, restateDays }: { zone: string; begins: string; restateDays: number }) {
    this.random = random;
    this.#zone = zone;
    this.#begins = begins;
    this.#restate = restateDays * DAY;
    this.reports = reportService(new Date(Date.parse(begins) + 6 * DAY + 13 * HOUR).toISOString());
    this.reports.behaviour.today = () => this.today;
  }

  get today(): string {
    return new Date(timeZone(this.#zone).toLocal(this.reports.now)).toISOString().slice(0, 10);
  }

  /** Every day until today has figures. */
  report(): void {
    for (let day = this.#begins; day <= this.today; day = nextDay(day))
      if (this.#of(day).length === 0) for (let rows = this.random.whole(1, 8); rows > 0; rows -= 1) this.#put(day);
  }

  /** Restates days that may still change, and now and then one that may not. */
  change(): void {
    const { random } = this;
    for (let count = random.whole(0, 6); count > 0; count -= 1) {
      const day = nextDay(this.today, -random.whole(0, 6));
      if (day < this.#begins) continue;
      if (!this.#mayChange(day)) {
        if (!random.chance(0.2)) continue;
        this.hasLate = true;
      }
      const found = this.#of(day);
      const gone = found.length > 1 && random.chance(0.3) ? found[0] : undefined;
      if (gone === undefined) this.#put(day);
      else this.reports.drop(gone.day, gone.page, gone.referrer);
    }
    const tomorrow = nextDay(this.today);
    if (this.reports.behaviour.refusesTomorrow !== true && random.chance(0.2)) this.#put(tomorrow);
  }

  /** A full walk that came to its end has found what was late before it began. */
  walked(isWhole: boolean, isFull: boolean): void {
    if (isWhole && isFull && !this.isUnfinished) this.hasLate = false;
    this.isUnfinished = !isWhole;
  }

  #mayChange(day: string): boolean {
    const zone = timeZone(this.#zone);
    const end = Date.parse(nextDay(day));
    return this.reports.now < zone.earliest(end) + this.#restate;
  }

  #of(day: string): Figure[] {
    return [...this.reports.figures.values()].filter((figure) => figure.day === day);
  }

  #put(day: string): void {
    const { random } = this;
    if (this.#of(day).length >= this.mostPerDay) return;
    const referrer = random.chance(0.4) ? null : random.pick(['search', 'mail']);
    this.reports.put(day, `/p${random.whole(0, 9)}`, referrer, random.whole(0, 1_000));
  }
}

/** Some time of its day, always the same for the same figure. */
function momentOf({ day, page, referrer }: Figure, zone: string): string {
  const hour = (Number(page.slice(2)) * 7 + (referrer ?? '').length * 3) % 24;
  const [local, place] = [Date.parse(day) + hour * HOUR + 30 * 60_000, timeZone(zone)];
  // Of an hour that does not occur, that after it: the one before may be of the day before.
  return new Date(place.earliest(local) + place.spread(local)).toISOString();
}
