import { html } from 'hono/html';
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

/** A moment for people and programs; `text` is what is shown, the exact time stands in its tooltip. */
export function time(at: number, text: string): Markup {
  const iso = new Date(at).toISOString();
  return markup`<time datetime="${iso}" title="${iso.slice(0, 19).replace('T', ' ')} UTC">${text}</time>`;
}
