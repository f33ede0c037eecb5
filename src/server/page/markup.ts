// Building blocks of the pages: escaped HTML templates, times, icons, tables.
import { html } from 'hono/html';
import { visibleText } from '../../model/visible-text.ts';
import { formatDuration, formatAge, formatTimestamp, formatTimeUntil } from '../../observe/format-values.ts';
import type { Problem } from '../source-activity.ts';
import type { Severity } from '../status/attention.ts';

/** HTML in which texts are escaped and invisible characters are made visible. */
export type Markup = Exclude<ReturnType<typeof html>, Promise<unknown>>;

type TextPart = Markup | string | number | boolean | null | undefined | readonly TextPart[];

/** HTML template: strings are escaped, markup and lists of it are inserted, null and booleans insert nothing. */
export function markup(strings: TemplateStringsArray, ...parts: readonly TextPart[]): Markup {
  const made = html(strings, ...parts.map(toVisible));
  if (made instanceof Promise) throw new TypeError('pages are rendered synchronously');
  return made;
}

/** Control and bidirectional characters would hide or reorder other text. */
function toVisible(part: TextPart): unknown {
  if (typeof part === 'string') return visibleText(part);
  return Array.isArray(part) ? part.map(toVisible) : part;
}

/** How a time is written; the page's script (`script.ts`) has the same formats, and updates it in the reader's zone. */
const TIME_FORMATS = {
  /** `4m 12s ago` */
  ago: formatAge,
  /** `in 4m 12s` */
  in: formatTimeUntil,
  /** `53h 12m`, the duration since then */
  for: (at: number, now: number) => formatDuration((now - at) / 1_000),
  /** `14:18:25`, with the date if that is not today */
  moment: formatTimestamp,
};

/** A time in one of the formats, with the exact time in its tooltip. */
export function timeAs(format: keyof typeof TIME_FORMATS, at: number, now: number): Markup {
  const iso = new Date(at).toISOString();
  const tooltip = `${iso.slice(0, 19).replace('T', ' ')} UTC`;
  return markup`<time datetime="${iso}" data-as="${format}" title="${tooltip}">${TIME_FORMATS[format](at, now)}</time>`;
}

/** The state that colours and icons show: a severity, `fine`, or `quiet` if there is nothing to say yet. */
export type PageTone = Severity | 'fine' | 'quiet';

/** Each tone has its own shape, so that colour is never the only difference. Drawn on 16 by 16. */
const SHAPES: Readonly<Record<PageTone, Markup>> = {
  fine: markup`<circle cx="8" cy="8" r="7"/><path class="cut" d="M4.7 8.3l2.3 2.3 4.4-4.8"/>`,
  look: markup`<path d="M8 .6L15.4 8 8 15.4.6 8z"/><path class="cut" d="M8 4.6v4M8 11v.3"/>`,
  late: markup`<path d="M8 1l7.4 13.6H.6z"/><path class="cut" d="M8 6v4M8 12.2v.3"/>`,
  down: markup`<rect x="1" y="1" width="14" height="14" rx="2"/><path class="cut" d="M5 5l6 6M11 5l-6 6"/>`,
  quiet: markup`<circle class="hollow" cx="8" cy="8" r="6"/>`,
};

/** An icon next to a word with the same meaning. */
export function icon(tone: PageTone): Markup {
  return markup`<svg class="icon ${tone}" viewBox="0 0 16 16" aria-hidden="true">${SHAPES[tone]}</svg>`;
}

/** An icon and its word, such as the status of a run. */
export function stateWord(tone: PageTone, word: string): Markup {
  return markup`<span class="state ${tone}">${icon(tone)}${word}</span>`;
}

const TAB_COLOURS: Readonly<Record<PageTone, string>> = {
  quiet: '#5c626b',
  fine: '#1a7f4b',
  look: '#9a6700',
  late: '#c2410c',
  down: '#b42318',
};

/** The tab's icon in the colour and shape of the tone. */
export function tabIcon(tone: PageTone): string {
  const style = `<style>.hollow{fill:none;stroke:${TAB_COLOURS.quiet};stroke-width:2}.cut{fill:none;stroke:#fff;stroke-width:1.8}</style>`;
  const colour = TAB_COLOURS[tone];
  const svg = `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 16 16" fill="${colour}">${style}${SHAPES[tone].toString()}</svg>`;
  return `data:image/svg+xml,${encodeURIComponent(svg)}`;
}

export function problemNote(what: TextPart, { code, hint }: Problem): Markup {
  return markup`<p class="problem">${icon('down')}<span>${what} <code>${code}</code>${hintLine(hint)}</span></p>`;
}

export function hintLine(hint: string | null): Markup | null {
  return hint === null ? null : markup`<br><span class="hint">→ ${hint}</span>`;
}

type TableCell = Markup | string | number | null;

/** The title of a column, a class of its cells such as `number`, and a note on the title. */
export type TableColumn = string | readonly [title: string, kind: string, note?: string];

interface DataTable {
  /** Unique in the page. */
  id: string;
  label: string;
  /** A CSS class of the table. */
  kind?: string;
  columns: readonly TableColumn[];
  /** The cells of each row, the first of which is its header; or a complete row. */
  rows: readonly (readonly TableCell[] | Markup)[];
}

/** Renders a table that scrolls on narrow screens. */
export function dataTable({ id, label, kind = '', columns, rows }: DataTable): Markup {
  const heads = columns.map((column) => (typeof column === 'string' ? ([column, ''] as const) : column));
  const body = rows.map((row) => {
    if (!isCells(row)) return row;
    const [first, ...rest] = row;
    const cells = rest.map((cell, at) => markup`<td class="${heads[at + 1]?.[1] ?? ''}">${cell}</td>`);
    return markup`<tr><th scope="row">${first}</th>${cells}</tr>`;
  });
  return markup`<div class="wide" id="${id}" tabindex="0" role="region" aria-label="${label}"><table class="${kind}"><thead><tr>${heads.map(columnHead)}</tr></thead>
<tbody>${body}</tbody></table></div>`;
}

export function columnHead([title, kind = '', note]: readonly [title: string, kind?: string, note?: string]): Markup {
  return markup`<th scope="col" class="${kind === 'number' ? kind : ''}"${note === undefined ? null : markup` title="${note}"`}>${title}</th>`;
}

function isCells(row: readonly TableCell[] | Markup): row is readonly TableCell[] {
  return Array.isArray(row);
}

/** A count; 0 is less prominent. */
export function countCell(count: number, text: string): TableCell {
  return count === 0 ? markup`<span class="quiet">${text}</span>` : text;
}

/** Formats `12 requests · 0 × 429`. */
export function joinWithDots(parts: readonly (Markup | string)[]): Markup {
  return markup`${parts.map((part, at) => (at === 0 ? markup`${part}` : markup` · ${part}`))}`;
}
