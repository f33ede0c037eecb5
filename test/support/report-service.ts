import type { Reply, Responder } from '../pagination/listing-server.ts';
import { clockShowing } from './hurried-clock.ts';
import type { TestDatabase } from './databases.ts';
import { ownService, type OwnService } from './own-service.ts';
import type { RunChoices } from './journey.ts';
import type { WindowRow } from '../../src/database/own-tables.ts';
import type { ResourceReport } from '../../src/sync/report.ts';

const DAY_MS = 86_400_000;

/** A figure of a report: of a day, by two dimensions of which one may be null. */
export interface Figure {
  /** `YYYY-MM-DD` of the service's own days. */
  day: string;
  page: string;
  referrer: string | null;
  views: number;
}

/** How a service of reports behaves; what is left out is what a healthy one does. */
export interface ReportBehaviour {
  /** The most rows that one query lists, whatever there are. */
  cap?: number;
  /** Refuses ranges of more days, by this status; 0 hangs. */
  largest?: { days: number; status: number };
  /** The status by which it refuses so many days from one on; null if it does not. */
  refuses?: (from: string, days: number) => number | null;
  /** False if the last day that is asked for is not counted in. */
  isInclusive?: boolean;
  /** Refuses days that have not begun by its clock. */
  refusesTomorrow?: boolean;
  /** Refuses the day that its clock shows as well, since that is not over. */
  refusesToday?: boolean;
  /** The most rows on a page, however many are asked for. */
  pageCap?: number;
  /** The day that its clock shows; that of UTC where absent. */
  today?: () => string;
  /** Status by which a request fails; it does not where absent or null. */
  fails?: () => number | null;
  /** How a day is written in a row; as `YYYY-MM-DD` where absent. */
  written?: (figure: Figure) => string;
  /** What it lists for a range, in place of its figures. */
  lists?: (found: Figure[], from: string, to: string) => Figure[];
  /** True if the total that it tells is of all rows, listed or not. */
  totalsAll?: boolean;
  /** What is added to the total that it tells. */
  totalError?: number;
  /** Called for each request, before it is answered. */
  before?: (url: URL) => void;
}

/** A service of reports, `/v1/report?from&to&cursor&limit`: what it has is what the test puts there. */
export interface ReportService {
  figures: Map<string, Figure>;
  behaviour: ReportBehaviour;
  /** Epoch milliseconds of its clock, which stands still. */
  now: number;
  put(day: string, page: string, referrer: string | null, views: number): void;
  drop(day: string, page: string, referrer: string | null): void;
  respond: Responder;
}

function keyOf(...parts: unknown[]): string {
  return JSON.stringify(parts);
}

export function reportService(now: string, behaviour: ReportBehaviour = {}): ReportService {
  const service: ReportService = {
    figures: new Map(),
    behaviour,
    now: Date.parse(now),
    put: (day, page, referrer, views) =>
      void service.figures.set(keyOf(day, page, referrer), { day, page, referrer, views }),
    drop: (day, page, referrer) => void service.figures.delete(keyOf(day, page, referrer)),
    respond: (url) => ({ headers: { date: new Date(service.now).toUTCString() }, ...answer(service, url) }),
  };
  return service;
}

function answer({ figures, behaviour, now }: ReportService, url: URL): Reply {
  behaviour.before?.(url);
  const { cap = Infinity, largest, isInclusive = true, refusesTomorrow = false, totalError = 0 } = behaviour;
  const failure = behaviour.fails?.() ?? null;
  if (failure !== null) return { status: failure, body: { error: 'try again' } };
  const today = behaviour.today?.() ?? new Date(now).toISOString().slice(0, 10);
  const [from = '', to = ''] = ['from', 'to'].map((name) => url.searchParams.get(name) ?? undefined);
  const behind = isInclusive ? nextDay(to) : to;
  if (from === '' || to === '') return { status: 400, body: { error: 'from and to, please' } };
  if (behaviour.refusesToday === true && behind > today) return { status: 422, body: { error: 'not over yet' } };
  if (refusesTomorrow && behind > nextDay(today)) return { status: 422, body: { error: 'to is in the future' } };
  const days = (Date.parse(behind) - Date.parse(from)) / DAY_MS;
  const refused = largest !== undefined && days > largest.days ? largest.status : behaviour.refuses?.(from, days);
  if (refused != null) return { status: refused, body: { error: { code: 'too_large' } } };
  const found = [...figures.values()].filter(({ day }) => day >= from && day < behind).toSorted(byDay);
  const listed = (behaviour.lists?.(found, from, to) ?? found).slice(0, cap);
  const asked = Number(url.searchParams.get('limit') ?? 100);
  const [at, limit] = [parsePlace(url.searchParams.get('cursor')), Math.min(asked, behaviour.pageCap ?? asked)];
  const next = at + limit < listed.length ? cursorOf(at + limit) : null;
  const summed = behaviour.totalsAll === true ? found : listed;
  const sum = summed.reduce((total, figure) => total + figure.views, totalError);
  const data = listed.slice(at, at + limit).map((figure) => {
    const { day, page, referrer, views } = figure;
    return { date: behaviour.written?.(figure) ?? day, page, referrer, views };
  });
  return { body: { data, next_cursor: next, totals: { views: sum } } };
}

/** Opaque, as those of most services: nothing of it is a number that could be a page's. */
function cursorOf(at: number): string {
  return String(at).replace(/\d/g, (digit) => 'abcdefghij'.charAt(Number(digit)));
}

function parsePlace(cursor: string | null): number {
  return Number((cursor ?? '').replace(/[a-j]/g, (letter) => String('abcdefghij'.indexOf(letter))));
}

function byDay(a: Figure, b: Figure): number {
  const [left, right] = [a, b].map(({ day, page, referrer }) => `${day} ${page} ${referrer ?? ''}`);
  return (left ?? '') < (right ?? '') ? -1 : 1;
}

export function nextDay(day: string, days = 1): string {
  return day === '' ? '' : new Date(Date.parse(day) + days * DAY_MS).toISOString().slice(0, 10);
}

/** A copy of such a service. */
export interface ReportStage extends OwnService {
  reports: ReportService;
  /** A run by the service's clock; `asked` is what it asked for, as `from..to` or `from..to+cursor`. */
  walk(command?: 'backfill' | 'sync', choices?: RunChoices): Promise<ResourceReport & { asked: string[] }>;
  /** Everything in which the live rows are not the service's figures. */
  unlike(): Promise<string[]>;
  /** Rows of `_sync_windows`, the oldest first. */
  windows(): Promise<WindowRow[]>;
  /** Lays other fields over `windows` of the profile. */
  setWindows(fields: Record<string, unknown>): void;
}

const WINDOWS = {
  field: 'date',
  from_param: 'from',
  to_param: 'to',
  start: '2026-01-01',
  totals: { views: 'totals.views' },
};

/** Fields of the profile's resource, of the settings' source, and of `http` in the profile. */
type StageChoices = Partial<Record<'fields' | 'source' | 'http', Record<string, unknown>>>;

/**
 * Starts a service and an empty warehouse for it; `windows` are fields of the profile's, `fields` of the resource. Where
 * nothing else is said ranges are asked for one after the other, so that what was asked has an order.
 */
export async function reportStage(
  database: TestDatabase,
  reports: ReportService,
  windows: Record<string, unknown> = {},
  { fields = {}, source = {}, http = { concurrency: 1 } }: StageChoices = {},
): Promise<ReportStage> {
  const resource = (more: Record<string, unknown>): Record<string, unknown> => ({
    id: ['date', 'page', 'referrer'],
    updated: null,
    history: 'all',
    page: { style: 'cursor', size: 50 },
    windows: { ...WINDOWS, ...windows, ...more },
    ...fields,
  });
  const stage = await ownService(database, resource({}), reports.respond, source);
  const clock = clockShowing(() => reports.now);
  const setWindows = (more: Record<string, unknown>): void =>
    stage.setProfile({
      http,
      resources: { content: null, images: null, analytics: null, report: { path: '/report', ...resource(more) } },
    });
  setWindows({});
  return {
    ...stage,
    reports,
    setWindows,
    walk: async (command = 'sync', choices = {}) => {
      stage.service.requests.length = 0;
      const { resources } = await stage.run(command, { clock, ...choices });
      if (resources[0] === undefined) throw new Error('no resource was run');
      return { ...resources[0], asked: stage.service.requests.map(rangeIn) };
    },
    unlike: async () => {
      const wanted = [...reports.figures.values()].map(
        (figure) => `${dateIn(reports, figure)} ${figure.page} ${figure.referrer ?? '-'} ${figure.views}`,
      );
      const rows = await stage.column<string>(
        "SELECT replace(substr(date, 1, 16), 'T', ' ') || ' ' || page || ' ' || coalesce(referrer, '-') || ' ' || views FROM report WHERE _deleted_at IS NULL",
      );
      return [...new Set(rows).symmetricDifference(new Set(wanted))].toSorted();
    },
    windows: () => stage.all<WindowRow>('SELECT * FROM _sync_windows ORDER BY window_start'),
  };
}

/** As it stands in the table, to the minute. */
function dateIn({ behaviour }: ReportService, figure: Figure): string {
  const written = behaviour.written?.(figure) ?? figure.day;
  return written.slice(0, 16).replace('T', ' ');
}

function rangeIn(request: string): string {
  const { searchParams } = new URL(request, 'http://localhost');
  const cursor = searchParams.get('cursor');
  return `${searchParams.get('from') ?? ''}..${searchParams.get('to') ?? ''}${cursor === null ? '' : `+${cursor}`}`;
}
