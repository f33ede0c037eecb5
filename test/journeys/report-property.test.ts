import { describe, expect, it } from 'vitest';
import { timeZone } from '../../src/model/time-zone.ts';
import { eitherDatabase, type TestDatabase } from '../support/databases.ts';
import { STOPPED } from '../support/journey.ts';
import { seedsOf } from '../support/length.ts';
import { freshSeed, type Random, randomFrom } from '../support/random.ts';
import {
  type Figure,
  nextDay,
  reportService,
  type ReportService,
  reportStage,
  type ReportStage,
} from '../support/report-service.ts';

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
 * A service of reports that restates by a seed what may still change, adds late and early rows, fails, is capped with or
 * without a word, has days of any zone and moves to another, tells totals that are none, and refuses days that are not
 * over; copied by runs of which some are stopped, one or several ranges at a time. After one quiet run the copy is what the
 * service has, but for what came later than it says anything comes: that is what `verify` finds, and a full walk brings.
 */
async function randomReports(database: TestDatabase, seed: number): Promise<void> {
  const random = randomFrom(seed);
  const [zone, begins] = random.pick(PLACES);
  const restateDays = random.whole(1, 4);
  const world = new World(random, { zone, begins, restateDays });
  const { reports } = world;
  const stage = await randomStage(database, world, { start: begins, zone, restate: `${restateDays * 24}h` });
  for (let day = 0; day < 6; day += 1) world.report();
  for (let step = random.whole(8, 14); step > 0; step -= 1) {
    world.change();
    reports.now += random.whole(1, 30) * HOUR;
    world.report();
    if (random.chance(0.05)) await moved(stage, world, seed);
    else if (random.chance(0.7)) await oneRun(stage, world);
  }
  reports.behaviour.fails = () => null;
  reports.now += HOUR;
  await quietRun(stage, seed, 'sync');
  // Whether it had to go through days that were late, or was stopped before, nobody has said: `verify` finds what is.
  const late = await stage.unlike();
  const { code: verdict } = await stage.command('verify', 'report');
  expect({ seed, late, verdict }).toEqual({ seed, late, verdict: late.length === 0 ? 0 : 3 });
  reports.now += HOUR;
  expect({ seed, late: world.hasLate ? [] : late }).toEqual({ seed, late: [] });
  if (late.length > 0) await quietRun(stage, seed, 'backfill');
  expect({ seed, unlike: await stage.unlike() }).toEqual({ seed, unlike: [] });
  await expectRemembered(stage, seed);
  // Versions, tombstones and child tables agree with the rows.
  const { code, stdout } = await stage.command('verify', '--internal', 'report');
  expect({ seed, code, stdout }).toEqual({ seed, code: 0, stdout: expect.any(String) });
}

/** A copy of the world by a service that has habits of its own, which the profile knows as far as a person could. */
async function randomStage(
  database: TestDatabase,
  world: World,
  windows: Record<string, string>,
): Promise<ReportStage> {
  const { random, reports } = world;
  const { behaviour } = reports;
  behaviour.refusesTomorrow = random.chance(0.4);
  behaviour.refusesToday = random.chance(0.15);
  const most = random.chance(0.5) ? random.whole(12, 40) : null;
  if (most !== null) behaviour.cap = most;
  const isCutSilently = most === null && random.chance(0.4);
  // Without a word but for the sum of all that there is.
  if (isCutSilently) Object.assign(behaviour, { cap: random.whole(12, 40), totalsAll: true });
  const isTotalWrong = !isCutSilently && random.chance(0.2);
  if (isTotalWrong) behaviour.totalError = random.whole(-50, 50);
  if (random.chance(0.3)) behaviour.pageCap = random.whole(2, 10);
  // A window that is full would be capped for ever: days stay below that.
  world.mostPerDay = (behaviour.cap ?? 16) - 1;
  if (random.chance(0.3)) behaviour.largest = { days: random.whole(1, 6), status: 413 };
  if (random.chance(0.5)) behaviour.written = (figure) => momentOf(figure, world.zone);
  const told = {
    ...windows,
    largest: `${random.whole(1, 12)}d`,
    most,
    ...(behaviour.largest === undefined ? {} : { too_large: { status: [413] } }),
    ...(isCutSilently || isTotalWrong || random.chance(0.5) ? {} : { totals: {} }),
  };
  const fields = {
    page: { style: 'cursor', size: random.whole(3, 30) },
    history: random.pick(['all', 'latest', 'none']),
    // Nobody accepts what shows where a service cuts.
    ...(isTotalWrong ? { accept: ['totals'] } : {}),
  };
  const source = { deletes: { max_part: 1, max_rows: 100_000 } };
  const stage = await reportStage(database, reports, told, {
    fields,
    source,
    http: { concurrency: random.whole(1, 8) },
  });
  // So that ranges are worth asking for while one is written.
  stage.service.delay = random.pick([0, 0, 5, 20]);
  return stage;
}

/** What a service is like, and no loss. */
const HARMLESS: ReadonlySet<string> = new Set(['window_unfinished']);

/** Nothing changes meanwhile, and nothing fails: it has nothing to tell that a person has not accepted. */
async function quietRun(stage: ReportStage, seed: number, command: 'sync' | 'backfill'): Promise<void> {
  const { status, warnings = [], error } = await stage.walk(command);
  const told = warnings.filter(({ accepted, code }) => accepted !== true && !HARMLESS.has(code));
  expect({ seed, status, told, error }).toEqual({ seed, status: 'ok', told: [] });
}

/** The account reports days of another zone from now on, and the profile says so: all data is other data then. */
async function moved(stage: ReportStage, world: World, seed: number): Promise<void> {
  const { random, reports } = world;
  [world.zone] = random.pick(PLACES);
  // By then every day that has figures has begun there.
  reports.now += 27 * HOUR;
  world.report();
  stage.setWindows({ zone: world.zone });
  reports.behaviour.fails = () => null;
  const { status } = await stage.walk('backfill', { restart: true });
  expect({ seed, zone: world.zone, status }).toEqual({ seed, zone: world.zone, status: 'ok' });
  world.hasLate = false;
  world.isUnfinished = false;
}

/** A run that may be stopped after some requests, or meet failures. */
async function oneRun(stage: ReportStage, world: World): Promise<void> {
  const { random, reports } = world;
  const stop = new AbortController();
  const isStopped = random.chance(0.3);
  let left = isStopped ? random.whole(1, 6) : Infinity;
  reports.behaviour.before = () => {
    left -= 1;
    if (left === 0) stop.abort(STOPPED);
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
async function expectRemembered(stage: ReportStage, seed: number): Promise<void> {
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
  /** Of the days that the service reports. */
  zone: string;
  readonly #begins: string;
  readonly #restate: number;

  constructor(random: Random, { zone, begins, restateDays }: { zone: string; begins: string; restateDays: number }) {
    this.random = random;
    this.zone = zone;
    this.#begins = begins;
    this.#restate = restateDays * DAY;
    this.reports = reportService(new Date(Date.parse(begins) + 6 * DAY + 13 * HOUR).toISOString());
    this.reports.behaviour.today = () => this.today;
  }

  get today(): string {
    return new Date(timeZone(this.zone).toLocal(this.reports.now)).toISOString().slice(0, 10);
  }

  /** The last day of which the service tells figures. */
  get latest(): string {
    return this.reports.behaviour.refusesToday === true ? nextDay(this.today, -1) : this.today;
  }

  /** Every day until then has figures. */
  report(): void {
    for (let day = this.#begins; day <= this.latest; day = nextDay(day))
      if (this.#of(day).length === 0) for (let rows = this.random.whole(1, 8); rows > 0; rows -= 1) this.#put(day);
  }

  /** Restates days that may still change, and now and then one that may not. */
  change(): void {
    const { random } = this;
    for (let count = random.whole(0, 6); count > 0; count -= 1) {
      const day = nextDay(this.latest, -random.whole(0, 6));
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
    const { refusesTomorrow, refusesToday } = this.reports.behaviour;
    if (refusesTomorrow !== true && refusesToday !== true && random.chance(0.2)) this.#put(tomorrow);
  }

  /** A full walk that came to its end has found what was late before it began. */
  walked(isWhole: boolean, isFull: boolean): void {
    if (isWhole && isFull && !this.isUnfinished) this.hasLate = false;
    this.isUnfinished = !isWhole;
  }

  #mayChange(day: string): boolean {
    const zone = timeZone(this.zone);
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

/** Some time of its day in the zone of the reports. */
function momentOf({ day, page, referrer }: Figure, zone: string): string {
  const hour = (Number(page.slice(2)) * 7 + (referrer ?? '').length * 3) % 24;
  const [local, place] = [Date.parse(day) + hour * HOUR + 30 * 60_000, timeZone(zone)];
  // Of an hour that does not occur, that after it: the one before may be of the day before.
  return new Date(place.earliest(local) + place.spread(local)).toISOString();
}

describe.for(eitherDatabase(import.meta.filename))(
  'F075 reports that are restated while they are copied to $name',
  (database) => {
    it.for(seedsOf([freshSeed()], 300))('are what the warehouse holds after one quiet run (SEED=%d)', (seed) =>
      randomReports(database, seed),
    );
  },
);
