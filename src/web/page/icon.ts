import { markup, type Markup } from './markup.ts';
import type { Severity } from '../../serve/status/attention.ts';

export type Tone = Severity | 'fine' | 'quiet';

/** A shape of its own for each, so that nothing is told by colour alone. Drawn on 16 by 16. */
const SHAPES: Readonly<Record<Tone, Markup>> = {
  fine: markup`<circle cx="8" cy="8" r="7"/><path class="cut" d="M4.7 8.3l2.3 2.3 4.4-4.8"/>`,
  look: markup`<path d="M8 .6L15.4 8 8 15.4.6 8z"/><path class="cut" d="M8 4.6v4M8 11v.3"/>`,
  late: markup`<path d="M8 1l7.4 13.6H.6z"/><path class="cut" d="M8 6v4M8 12.2v.3"/>`,
  down: markup`<rect x="1" y="1" width="14" height="14" rx="2"/><path class="cut" d="M5 5l6 6M11 5l-6 6"/>`,
  quiet: markup`<circle class="hollow" cx="8" cy="8" r="6"/>`,
};

/** A small picture beside a word that says the same. */
export function icon(tone: Tone): Markup {
  return markup`<svg class="icon ${tone}" viewBox="0 0 16 16" aria-hidden="true">${SHAPES[tone]}</svg>`;
}

const TAB_COLOURS: Readonly<Record<Tone, string>> = {
  quiet: '#5c626b',
  fine: '#1a7f4b',
  look: '#9a6700',
  late: '#c2410c',
  down: '#b42318',
};

/** The tab's own icon, in the colour and the shape of how it stands. */
export function tabIcon(tone: Tone): string {
  const style = `<style>.hollow{fill:none;stroke:${TAB_COLOURS.quiet};stroke-width:2}.cut{fill:none;stroke:#fff;stroke-width:1.8}</style>`;
  const colour = TAB_COLOURS[tone];
  const svg = `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 16 16" fill="${colour}">${style}${SHAPES[tone].toString()}</svg>`;
  return `data:image/svg+xml,${encodeURIComponent(svg)}`;
}
