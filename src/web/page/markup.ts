import { html } from 'hono/html';
import { agoText, durationText, inText, momentText } from '../../observe/figures.ts';
import { visibleText } from '../../model/visible-text.ts';

/** HTML that is safe to send: texts put into it are escaped, and what a browser would not show is made visible. */
export type Markup = Exclude<ReturnType<typeof html>, Promise<unknown>>;

type Part = Markup | string | number | boolean | null | undefined | readonly Part[];

/** Template of HTML. Strings are escaped, markup and lists of it are put in as they are, null and booleans are nothing. */
export function markup(strings: TemplateStringsArray, ...parts: readonly Part[]): Markup {
  const made = html(strings, ...parts.map(shown));
  if (made instanceof Promise) throw new TypeError('a page is put together of what is there already');
  return made;
}

/** Control and bidirectional characters would hide or reorder what stands beside them. */
function shown(part: Part): unknown {
  if (typeof part === 'string') return visibleText(part);
  return Array.isArray(part) ? part.map(shown) : part;
}

/** How a moment is written: since it, until it, how long something has gone on, the moment itself, or its minute. */
type TimeForm = 'ago' | 'in' | 'for' | 'moment';

/** A moment for people and programs; `text` is what is shown, the exact time stands in its tooltip. */
export function time(at: number, text: string, form?: TimeForm): Markup {
  const iso = new Date(at).toISOString();
  const written = form === undefined ? null : markup` data-as="${form}"`;
  return markup`<time datetime="${iso}"${written} title="${iso.slice(0, 19).replace('T', ' ')} UTC">${text}</time>`;
}

/** `4m 12s ago`; the page's script keeps it right between two answers. */
export function ago(at: number, now: number): Markup {
  return time(at, agoText(at, now), 'ago');
}

/** `in 4m 12s`. */
export function until(at: number, now: number): Markup {
  return time(at, inText(at, now), 'in');
}

/** `14:18:25`, in UTC until the page's script knows the reader's zone. */
export function moment(at: number, now: number): Markup {
  return time(at, momentText(at, now), 'moment');
}

/** `53h 12m`: since then. */
export function lasting(since: number, now: number): Markup {
  return time(since, durationText((now - since) / 1_000), 'for');
}
