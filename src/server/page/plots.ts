import { countText, minuteText } from '../../observe/figures.ts';
import type { DetailedRun } from '../status/source-details.ts';
import { markup, type Markup } from './markup.ts';

/** Drawn in these units and scaled to the width of the column. */
const WIDTH = 400;
const HEIGHT = 132;
const LEFT = 50;
const RIGHT = 4;
const TOP = 10;
const BOTTOM = 18;

interface PlotLine {
  /** Class for its colour. */
  tone: 'main' | 'other' | 'bad';
  values: readonly (number | null)[];
}

/** A plot over minutes, oldest first. Null is a gap: nothing is known. */
interface Plot {
  /** Part of the page's ids. */
  id: string;
  title: string;
  /** Text alternative for people who cannot see the plot. */
  summary: string;
  minutes: readonly number[];
  bars?: readonly (number | null)[];
  lines?: readonly PlotLine[];
  /** Minutes with a mark above them, such as refusals. */
  marks?: readonly boolean[];
  /** A level to compare with. */
  level?: { at: number; text: string } | null;
  /** The axis reaches at least so far. */
  least: number;
  axisText: (value: number) => string;
  /** Of one minute, for its tooltip. */
  minuteText: (index: number) => string;
}

/** The plot as inline SVG: axes with units, no script, colours by class. Null if there is nothing to be seen on it. */
export function plotMarkup(plot: Plot): Markup | null {
  const lines = plot.lines ?? [];
  const isBlank =
    !(plot.bars ?? []).some((bar) => bar !== null && bar !== 0) &&
    lines.every(({ values }) => values.every((value) => value === null));
  if (isBlank && !(plot.marks ?? []).includes(true)) return null;
  const top = ceiling(Math.max(plot.least, ...highest(plot)));
  const x = (index: number) => LEFT + (index * (WIDTH - LEFT - RIGHT)) / plot.minutes.length;
  const y = (value: number) => round(HEIGHT - BOTTOM - (Math.min(value, top) / top) * (HEIGHT - TOP - BOTTOM));
  const step = (WIDTH - LEFT - RIGHT) / Math.max(1, plot.minutes.length);
  const { id, title, summary, level } = plot;
  return markup`<svg class="plot" viewBox="0 0 ${WIDTH} ${HEIGHT}" role="img" aria-labelledby="${id}-t ${id}-d">
<title id="${id}-t">${title}</title><desc id="${id}-d">${summary}</desc>
<g aria-hidden="true">${[0, top / 2, top].map((value) => gridLine(y(value), plot.axisText(value)))}
${minuteTicks(plot.minutes, x)}
${bars(plot.bars ?? [], step, x, y)}
${level && levelLine(y(level.at), level.text)}
${lines.map((line) => [markup`<path class="line ${line.tone}" d="${pathOf(line.values, (at) => x(at) + step / 2, y)}"/>`, aloneDots(line, (at) => x(at) + step / 2, y)])}
${(plot.marks ?? []).map((isMarked, index) => isMarked && mark(x(index) + step / 2))}
${tooltips(plot, step, x)}
</g></svg>`;
}

function highest({ bars = [], lines = [], level }: Plot): number[] {
  const values = [...bars, ...lines.flatMap((line) => line.values)].filter((value) => value !== null);
  return level ? [...values, level.at] : values;
}

/** The next round number: 1, 2 or 5 and noughts. */
function ceiling(value: number): number {
  const power = 10 ** Math.floor(Math.log10(value));
  return ([1, 2, 5, 10].find((factor) => factor * power >= value * 0.999) ?? 10) * power;
}

function gridLine(y: number, text: string, from = LEFT, to = WIDTH - RIGHT): Markup {
  return markup`<line class="grid" x1="${from}" x2="${to}" y1="${y}" y2="${y}"/><text class="axis" x="${from - 6}" y="${y + 3.5}" text-anchor="end">${text}</text>`;
}

/** Every fifteen minutes by the clock, so that marks do not jump at each refresh. */
function minuteTicks(minutes: readonly number[], x: (index: number) => number): Markup[] {
  return minutes.flatMap((at, index) => {
    const isTick = Math.floor(at / 60_000) % 15 === 0;
    const fits = x(index) > LEFT + 8 && x(index) < WIDTH - 16;
    if (!isTick || !fits) return [];
    return [
      markup`<text class="axis" x="${round(x(index))}" y="${HEIGHT - 4}" text-anchor="middle" data-at="${at}">${minuteText(at)}</text>`,
    ];
  });
}

/** As one line of strokes: a shape for each would be most of the page. */
function bars(
  values: readonly (number | null)[],
  step: number,
  x: (index: number) => number,
  y: (value: number) => number,
): Markup | null {
  const floor = HEIGHT - BOTTOM;
  const strokes = values.map((value, index) => {
    // What is there is seen, however little it is.
    const top = value === null || value === 0 ? floor : Math.min(y(value), floor - 1);
    return top === floor ? '' : `M${short(x(index) + step / 2)} ${floor}V${short(top)}`;
  });
  const path = strokes.join('');
  return path === '' ? null : markup`<path class="bar" stroke-width="${round(step - 1.2)}" d="${path}"/>`;
}

/** What a pointer finds: a tooltip for each minute, as high as the plot by the stylesheet. */
function tooltips({ minutes, minuteText: textOf }: Plot, step: number, x: (index: number) => number): Markup {
  const areas = minutes.map(
    (at, index) =>
      markup`<rect x="${short(x(index))}" width="${short(step)}"><title data-at="${at}">${textOf(index)}</title></rect>`,
  );
  return markup`<g class="hits">${areas}</g>`;
}

/** To a tenth of a unit. */
function short(value: number): number {
  return Math.round(value * 10) / 10;
}

function levelLine(y: number, text: string): Markup {
  return markup`<line class="level" x1="${LEFT}" x2="${WIDTH - RIGHT}" y1="${y}" y2="${y}"/><text class="axis level-text" x="${WIDTH - RIGHT}" y="${y - 3.5}" text-anchor="end">${text}</text>`;
}

function mark(x: number): Markup {
  return markup`<path class="mark" d="M${round(x - 3.5)} 2h7l-3.5 6z"/>`;
}

/** Neighbours are joined. */
function pathOf(
  values: readonly (number | null)[],
  x: (index: number) => number,
  y: (value: number) => number,
): string {
  let before: number | null = null;
  const steps = values.map((value, index) => {
    const isJoined = before !== null;
    before = value;
    return value === null ? '' : `${isJoined ? 'L' : 'M'}${round(x(index))} ${y(value)}`;
  });
  return steps.join('');
}

/** A value that stands alone is a dot, which is seen from afar. */
function aloneDots({ tone, values }: PlotLine, x: (index: number) => number, y: (value: number) => number): Markup[] {
  return values.flatMap((value, index) => {
    const isAlone = (values[index - 1] ?? null) === null && (values[index + 1] ?? null) === null;
    return value === null || !isAlone
      ? []
      : [markup`<circle class="dot ${tone}" cx="${round(x(index))}" cy="${y(value)}" r="3"/>`];
  });
}

function round(value: number): number {
  return Math.round(value * 100) / 100;
}

/** Room around a plot of rows, for its longer numbers. */
const AROUND = { left: 62, right: 16, top: 16, bottom: 22 };

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
    points.length === 1
      ? width / 2
      : round(AROUND.left + ((at - first.at) / span) * (width - AROUND.left - AROUND.right));
  const y = (rows: number): number =>
    round(HEIGHT - AROUND.bottom - ((rows - least) / (most - least)) * (HEIGHT - AROUND.top - AROUND.bottom));
  const path = points.map((point, at) =>
    at === 0 ? `M${x(point)} ${y(point.rows)}` : `H${x(point)}V${y(point.rows)}`,
  );
  const lines = [least, most].map((rows) => gridLine(y(rows), countText(rows), AROUND.left, width - AROUND.right));
  const ticks =
    points.length === 1
      ? [tick(first, x(first), 'middle')]
      : [tick(first, AROUND.left, 'start'), tick(last, width - AROUND.right, 'end')];
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
