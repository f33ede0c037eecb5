import { countText, formatClockMinute } from '../../observe/figures.ts';
import type { DetailedRun } from '../status/source-details.ts';
import { markup, type Markup } from './markup.ts';

/** SVG units, scaled to the width of the column. */
const WIDTH = 400;
const HEIGHT = 132;

/** Margins for the axis labels. */
interface Margins {
  left: number;
  right: number;
  top: number;
  bottom: number;
}

const MINUTE_MARGINS: Margins = { left: 50, right: 4, top: 10, bottom: 18 };
/** Numbers of rows are longer than those of traffic. */
const GROWTH_MARGINS: Margins = { left: 62, right: 16, top: 16, bottom: 22 };

interface PlotLine {
  /** Class for its colour. */
  tone: 'main' | 'other';
  values: readonly (number | null)[];
}

/** A plot over minutes, oldest first. Null is a gap: the value is unknown. */
interface MinutePlot {
  /** Prefix of its ids in the page. */
  id: string;
  title: string;
  /** Text alternative for screen readers. */
  summary: string;
  minutes: readonly number[];
  bars?: readonly (number | null)[];
  lines?: readonly PlotLine[];
  /** Minutes with a mark above them, such as refusals. */
  marks?: readonly boolean[];
  /** A level to compare with. */
  level?: { at: number; text: string } | null;
  /** The axis reaches at least this value. */
  minAxis: number;
  axisText: (value: number) => string;
  /** One per minute. */
  tooltips: readonly string[];
}

type Scale = (value: number) => number;

/** Renders the plot as inline SVG: axes with units, no script, colours by class. Null if there is nothing to show. */
export function renderMinutePlot(plot: MinutePlot): Markup | null {
  const { id, title, summary, level, minutes, bars = [], lines = [], marks = [] } = plot;
  const values = [...bars, ...lines.flatMap((line) => line.values)].filter((value) => value !== null);
  const hasValues = bars.some((bar) => bar !== null && bar !== 0) || lines.some(hasValue);
  if (!hasValues && !marks.includes(true)) return null;
  const { left, right, top, bottom } = MINUTE_MARGINS;
  const axisMax = roundUp(Math.max(plot.minAxis, ...values, level?.at ?? 0));
  const step = (WIDTH - left - right) / Math.max(1, minutes.length);
  const x: Scale = (index) => left + index * step;
  const middle: Scale = (index) => x(index) + step / 2;
  const y: Scale = (value) => round(HEIGHT - bottom - (Math.min(value, axisMax) / axisMax) * (HEIGHT - top - bottom));
  return markup`<svg class="plot" viewBox="0 0 ${WIDTH} ${HEIGHT}" role="img" aria-labelledby="${id}-t ${id}-d">
<title id="${id}-t">${title}</title><desc id="${id}-d">${summary}</desc>
<g aria-hidden="true">${[0, axisMax / 2, axisMax].map((value) => gridLine(y(value), plot.axisText(value), left, WIDTH - right))}
${minutes.map((at, index) => minuteTick(at, x(index)))}
${barPath(bars, step, middle, y)}
${level && levelLine(y(level.at), level.text)}
${lines.map((line) => [markup`<path class="line ${line.tone}" d="${linePath(line.values, middle, y)}"/>`, singleDots(line, middle, y)])}
${marks.map((isMarked, index) => isMarked && markup`<path class="mark" d="M${round(middle(index) - 3.5)} 2h7l-3.5 6z"/>`)}
${tooltipAreas(plot, step, x)}
</g></svg>`;
}

function hasValue({ values }: PlotLine): boolean {
  return values.some((value) => value !== null);
}

/** Rounds up to 1, 2 or 5 times a power of ten. */
function roundUp(value: number): number {
  const power = 10 ** Math.floor(Math.log10(value));
  return ([1, 2, 5, 10].find((factor) => factor * power >= value * 0.999) ?? 10) * power;
}

function gridLine(y: number, text: string, from: number, to: number): Markup {
  return markup`<line class="grid" x1="${from}" x2="${to}" y1="${y}" y2="${y}"/><text class="axis" x="${from - 6}" y="${y + 3.5}" text-anchor="end">${text}</text>`;
}

/** Ticks are at quarters of an hour by the clock, so that they do not jump at each refresh. */
function minuteTick(at: number, x: number): Markup | null {
  const isQuarter = Math.floor(at / 60_000) % 15 === 0;
  if (!isQuarter || x <= MINUTE_MARGINS.left + 8 || x >= WIDTH - 16) return null;
  return markup`<text class="axis" x="${round(x)}" y="${HEIGHT - 4}" text-anchor="middle" data-at="${at}">${formatClockMinute(at)}</text>`;
}

/** Draws all bars as one path, because a shape for each would be most of the page. */
function barPath(values: readonly (number | null)[], step: number, x: Scale, y: Scale): Markup | null {
  const floor = HEIGHT - MINUTE_MARGINS.bottom;
  const strokes = values.flatMap((value, index) =>
    // The smallest value is still visible.
    value === null || value === 0 ? [] : [`M${round(x(index))} ${floor}V${round(Math.min(y(value), floor - 1))}`],
  );
  return strokes.length === 0
    ? null
    : markup`<path class="bar" stroke-width="${round(step - 1.2)}" d="${strokes.join('')}"/>`;
}

/** The stylesheet makes each area as high as the plot. */
function tooltipAreas({ minutes, tooltips }: MinutePlot, step: number, x: Scale): Markup {
  const areas = minutes.map(
    (at, index) =>
      markup`<rect x="${round(x(index))}" width="${round(step)}"><title data-at="${at}">${tooltips[index]}</title></rect>`,
  );
  return markup`<g class="hits">${areas}</g>`;
}

function levelLine(y: number, text: string): Markup {
  const { left, right } = MINUTE_MARGINS;
  return markup`<line class="level" x1="${left}" x2="${WIDTH - right}" y1="${y}" y2="${y}"/><text class="axis level-text" x="${WIDTH - right}" y="${y - 3.5}" text-anchor="end">${text}</text>`;
}

/** Joins neighbours; a gap interrupts the line. */
function linePath(values: readonly (number | null)[], x: Scale, y: Scale): string {
  const steps = values.map((value, index) => {
    const command = (values[index - 1] ?? null) === null ? 'M' : 'L';
    return value === null ? '' : `${command}${round(x(index))} ${y(value)}`;
  });
  return steps.join('');
}

/** A value between two gaps would be an invisible line, so it gets a dot. */
function singleDots({ tone, values }: PlotLine, x: Scale, y: Scale): (Markup | null)[] {
  return values.map((value, index) => {
    const isSingle = (values[index - 1] ?? null) === null && (values[index + 1] ?? null) === null;
    return value === null || !isSingle
      ? null
      : markup`<circle class="dot ${tone}" cx="${round(x(index))}" cy="${y(value)}" r="3"/>`;
  });
}

function round(value: number): number {
  return Math.round(value * 10) / 10;
}

/** Live rows from a time on, epoch milliseconds. */
interface Point {
  at: number;
  rows: number;
}

/**
 * Computes the live rows after each run, oldest first, from today's number and the changes of each run. Changes by
 * webhooks are not known by time and count as older than all runs.
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

interface GrowthPlot {
  resource: string;
  runs: readonly DetailedRun[];
  /** Live rows now; null if they are not counted. */
  live: number | null;
  /** The width of its column. */
  width: number;
}

/** Renders the rows over time; null before the first run. One point is a dot with its number. */
export function renderGrowthPlot({ resource, runs, live, width }: GrowthPlot): Markup | null {
  const points = live === null ? [] : pointsOf(runs, live);
  const [first] = points;
  const last = points.at(-1);
  if (first === undefined || last === undefined) return null;
  const isSingle = points.length === 1;
  const { left, right, top, bottom } = GROWTH_MARGINS;
  const counts = points.map(({ rows }) => rows);
  const [lowest, highest] = [Math.min(...counts), Math.max(...counts)];
  // Some space on both sides keeps a constant line inside the plot.
  const space = Math.max(1, Math.ceil((highest - lowest) * 0.15));
  const [min, max] = [Math.max(0, lowest - space), highest + space];
  const span = Math.max(1, last.at - first.at);
  const x = ({ at }: Point): number =>
    isSingle ? width / 2 : round(left + ((at - first.at) / span) * (width - left - right));
  const y: Scale = (rows) => round(HEIGHT - bottom - ((rows - min) / (max - min)) * (HEIGHT - top - bottom));
  const path = points.map((point, at) =>
    at === 0 ? `M${x(point)} ${y(point.rows)}` : `H${x(point)}V${y(point.rows)}`,
  );
  const ticks = isSingle
    ? timeTick(first, x(first), 'middle')
    : [timeTick(first, left, 'start'), timeTick(last, width - right, 'end')];
  return markup`<svg class="plot" viewBox="0 0 ${width} ${HEIGHT}" role="img" aria-labelledby="growth-${resource}-t growth-${resource}-d">
<title id="growth-${resource}-t">Live rows over time</title><desc id="growth-${resource}-d">${countText(first.rows)} rows after the first of these runs, ${countText(last.rows)} after the last one</desc>
<g aria-hidden="true">${[min, max].map((rows) => gridLine(y(rows), countText(rows), left, width - right))}<path class="line main" d="${path.join('')}"/>
${points.map((point) => markup`<circle class="dot" cx="${x(point)}" cy="${y(point.rows)}" r="3"><title data-at="${point.at}">${formatDateMinute(point.at)}: ${countText(point.rows)} live rows</title></circle>`)}
<text class="point-text" x="${x(last)}" y="${y(last.rows) - 7}" text-anchor="${isSingle ? 'middle' : 'end'}">${countText(last.rows)}</text>${ticks}</g></svg>`;
}

function timeTick({ at }: Point, x: number, anchor: string): Markup {
  return markup`<text class="axis" x="${x}" y="${HEIGHT - 5}" text-anchor="${anchor}" data-at="${at}">${formatDateMinute(at)}</text>`;
}

/** Formats `2026-11-20 14:05` in UTC; the page's script replaces it by the reader's zone. */
function formatDateMinute(at: number): string {
  return new Date(at).toISOString().slice(0, 16).replace('T', ' ');
}
