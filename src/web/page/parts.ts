import { createHash } from 'node:crypto';
import { raw } from 'hono/html';
import { markup, type Markup } from './markup.ts';

/** Elements that a page exchanges one by one. */
type PartTag = 'section' | 'tr' | 'ul' | 'div' | 'form' | 'nav' | 'a';

/**
 * An element of a page that the page's script exchanges by itself when it has changed. `attributes` begin with a space.
 * Parts do not lie within each other.
 */
export function part(tag: PartTag, attributes: Markup, content: Markup): Markup {
  const stamp = stampOf(`${attributes.toString()}>${content.toString()}`);
  return markup`${raw(`<!--part--><${tag}`)} data-part="${stamp}"${attributes}>${content}${raw(`</${tag}><!--/part-->`)}`;
}

const STAMP = 6;
/** Times grow older by themselves, a token is another one on each page, and what the page's head says is sent anyway. */
const PASSING = /<main[^>]*>|<time id="as-of"[^>]*>[^<]*|(<time [^>]*>)[^<]*|(name="token" value=")[^"]*/g;

/** Short, and so unlikely to be that of another content that a page does not miss a change in centuries. */
function stampOf(content: string): string {
  const settled = content.replace(PASSING, (_, before = '', field = '') => `${before}${field}`);
  return createHash('sha256').update(settled).digest('base64url').slice(0, STAMP);
}

const PART = /<!--part-->([^]*?)<!--\/part-->/g;
const MAIN = /<main[^]*<\/main>/;

/** A page's main element in pieces: what is sent again is decided by comparing stamps. */
interface PageParts {
  /** Of everything that lies outside parts. */
  frame: string;
  parts: { stamp: string; html: string }[];
}

/** What is put into markup cannot look like a part's ends, because `<` is escaped. */
function partsOf(page: string): PageParts {
  const [main = ''] = MAIN.exec(page) ?? [];
  const parts = [...main.matchAll(PART)].map(([, html = '']) => {
    return { stamp: /data-part="([^"]*)"/.exec(html)?.[1] ?? '', html };
  });
  return { frame: stampOf(main.replace(PART, '<!--part-->')), parts };
}

/** The page with the stamp of its frame, by which its script says what it has. */
export function withFrame(page: string): string {
  return page.replace('<main ', `<main data-frame="${partsOf(page).frame}" `);
}

const STAMPS = /^[A-Za-z0-9_-]+$/;

/** What a browser does not have yet. */
export interface ChangedParts {
  /** The page's main element without its content: what it says of the page as a whole. */
  head: string;
  /** By their number on the page. */
  parts: Record<string, string>;
}

/**
 * What differs from what a browser has: `known` is the frame's stamp and those of all parts in their order, without
 * anything between them. Null if it needs the whole page.
 */
export function changedParts(page: string, known: string): ChangedParts | null {
  const { frame, parts } = partsOf(page);
  if (!STAMPS.test(known) || known.length !== STAMP * (parts.length + 1) || !known.startsWith(frame)) return null;
  const changed = parts.flatMap(({ stamp, html }, index) => {
    const at = STAMP * (index + 1);
    return known.slice(at, at + STAMP) === stamp ? [] : [[String(index), html] as const];
  });
  const [head = ''] = /<main[^>]*>/.exec(page) ?? [];
  return { head, parts: Object.fromEntries(changed) };
}
