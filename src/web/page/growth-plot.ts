import { countText } from '../../observe/figures.ts';
import type { DetailedRun } from '../../serve/status/source-details.ts';
import { markup, type Markup } from './markup.ts';

const HEIGHT = 132;
const LEFT = 62;
const RIGHT = 16;
const TOP = 16;
const BOTTOM = 22;

/** Live rows from a moment on, epoch milliseconds. */
interface Point {
  at: number;
  rows: number;
}

/**
 * Live rows after each run, the oldest first: counted back from those of now by what each run added and deleted. What
 * webhooks have brought is not told apart, and counts as there from the beginning.
 */
function pointsOf(runs: readonly DetailedRun[], live: number): Point[] {
  let rows = live;
  const points = runs
    .filter(({ status }) => status !== 'running')
    .toSorted((a, b) => b.started_at - a.started_at)
    .map(({ started_at, seconds, inserted, deleted }) => {
      const point = { at: started_at + (seconds ?? 0) * 1_000, rows: Math.max(0, rows) };
      rows -= inserted - deleted;
      return point;
    });
  return points.toReversed();
}

/** What a plot is of: `live` rows now, null if they are not counted; `width` as its column is. */
interface Growth {
  resource: string;
  runs: readonly DetailedRun[];
  live: number | null;
  width: number;
}

/** Rows over time as a plot; null before the first run. One point is a dot with its number. */
export function growthPlot({ resource, runs, live, width }: Growth): Markup | null {
  const points = live === null ? [] : pointsOf(runs, live);
  const [first] = points;
  const last = points.at(-1);
  if (first === undefined || last === undefined) return null;
  const counts = points.map(({ rows }) => rows);
  const [least, most] = rangeOf(Math.min(...counts), Math.max(...counts));
  const span = Math.max(1, last.at - first.at);
  const x = ({ at }: Point): number =>
    points.length === 1 ? width / 2 : round(LEFT + ((at - first.at) / span) * (width - LEFT - RIGHT));
  const y = (rows: number): number =>
    round(HEIGHT - BOTTOM - ((rows - least) / (most - least)) * (HEIGHT - TOP - BOTTOM));
  const path = points.map((point, at) =>
    at === 0 ? `M${x(point)} ${y(point.rows)}` : `H${x(point)}V${y(point.rows)}`,
  );
  const lines = [least, most].map(
    (rows) =>
      markup`<line class="grid" x1="${LEFT}" x2="${width - RIGHT}" y1="${y(rows)}" y2="${y(rows)}"/><text class="axis" x="${LEFT - 8}" y="${y(rows) + 3.5}" text-anchor="end">${countText(rows)}</text>`,
  );
  const ticks =
    points.length === 1
      ? [tick(first, x(first), 'middle')]
      : [tick(first, LEFT, 'start'), tick(last, width - RIGHT, 'end')];
  return markup`<svg class="plot" viewBox="0 0 ${width} ${HEIGHT}" role="img" aria-labelledby="growth-${resource}-t growth-${resource}-d">
<title id="growth-${resource}-t">Live rows over time</title><desc id="growth-${resource}-d">${countText(first.rows)} rows after the first of these runs, ${countText(last.rows)} after the last one</desc>
<g aria-hidden="true">${lines}<path class="line main" d="${path.join('')}"/>
${points.map((point) => markup`<circle class="dot" cx="${x(point)}" cy="${y(point.rows)}" r="3"><title data-at="${point.at}">${stampText(point.at)}: ${countText(point.rows)} live rows</title></circle>`)}
<text class="point-text" x="${x(last)}" y="${y(last.rows) - 7}" text-anchor="${points.length === 1 ? 'middle' : 'end'}">${countText(last.rows)}</text>${ticks}</g></svg>`;
}

/** A little more than there is, so that a line that stands still lies within. */
function rangeOf(least: number, most: number): [number, number] {
  const room = Math.max(1, Math.ceil((most - least) * 0.15));
  return [Math.max(0, least - room), most + room];
}

function tick(point: Point, x: number, anchor: string): Markup {
  return markup`<text class="axis" x="${x}" y="${HEIGHT - 5}" text-anchor="${anchor}" data-at="${point.at}">${stampText(point.at)}</text>`;
}

/** UTC `2026-11-20 14:05`, until the page's script knows the reader's zone. */
function stampText(at: number): string {
  return new Date(at).toISOString().slice(0, 16).replace('T', ' ');
}

function round(value: number): number {
  return Math.round(value * 100) / 100;
}
