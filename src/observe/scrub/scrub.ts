import { advance, KINDS, type PatternTree } from './pattern-tree.ts';
import { BACKSLASH, isCutAt, PERCENT, type Symbols } from './read-symbols.ts';
import { secretViews, SHORT, type SecretViews, type SecretView } from './secret-forms.ts';

const STAND_IN = '***';

/**
 * Removes secrets from our own text, which may quote others: as `scrub` does, but only those that are too long to be a
 * word or a figure of the sentence. Quotations are scrubbed of short ones before they are put into it.
 */
export function scrubOwn(text: string, secrets: readonly string[], standIn: string = STAND_IN): string {
  return scrubChosen(text, secrets, LONG, standIn);
}

/**
 * Removes secrets from foreign text. Replaces every secret in it by `***` (or another text): as it is, escaped for
 * JSON or for a URL (any number of times), as base64 (also inside longer base64, as in basic authentication), hex or a
 * list of bytes, and its beginning if the text was cut there. `secrets` may grow between calls; it is read each time.
 *
 * The time is linear in the text's length, whatever the text and the secrets are: both may come from a stranger.
 */
export function scrub(text: string, secrets: readonly string[], standIn: string = STAND_IN): string {
  return scrubChosen(text, secrets, ALL, standIn);
}

/** True if `scrub` would remove something. */
export function holdsSecret(text: string, secrets: readonly string[]): boolean {
  const views = viewsFor(secrets, ALL);
  return views !== null && findSecrets(Buffer.from(text), views).length > 0;
}

/** The secrets to look for, and the prepared search for each list of secrets. */
interface Choice {
  isChosen: (secret: string) => boolean;
  known: WeakMap<readonly string[], { count: number; newest: string | undefined; views: SecretViews | null }>;
}

const ALL: Choice = { isChosen: (secret) => secret !== '', known: new WeakMap() };
const LONG: Choice = { isChosen: (secret) => secret.length > SHORT, known: new WeakMap() };

function scrubChosen(text: string, secrets: readonly string[], choice: Choice, standIn: string): string {
  const views = viewsFor(secrets, choice);
  if (views === null) return text;
  const bytes = Buffer.from(text);
  const spans = findSecrets(bytes, views);
  if (spans.length === 0) return text;
  return replaced(text, bytes.length === text.length ? spans : inCharacters(spans, text), standIn);
}

function replaced(text: string, spans: readonly Span[], standIn: string): string {
  const from = [0, ...spans.map(({ end }) => end)];
  return from.map((at, index) => text.slice(at, spans[index]?.start)).join(standIn);
}

/** Spans of a text's bytes as those of the text, which is kept as it is: halves of characters, too, have three bytes. */
function inCharacters(spans: readonly Span[], text: string): Span[] {
  let [at, bytes] = [0, 0];
  const upTo = (wanted: number): number => {
    while (bytes < wanted && at < text.length) {
      const point = text.codePointAt(at) ?? 0;
      at += point > 0xffff ? 2 : 1;
      bytes += point < 0x80 ? 1 : point < 0x800 ? 2 : point > 0xffff ? 4 : 3;
    }
    return at;
  };
  return spans.map(({ start, end }) => ({ start: upTo(start), end: upTo(end) }));
}

function viewsFor(secrets: readonly string[], { isChosen, known }: Choice): SecretViews | null {
  const last = known.get(secrets);
  const newest = secrets.at(-1);
  if (last?.count === secrets.length && last.newest === newest) return last.views;
  const views = secretViews([...new Set(secrets)].filter(isChosen));
  known.set(secrets, { count: secrets.length, newest, views });
  return views;
}

/** A part of a text; `end` is exclusive. */
export interface Span {
  start: number;
  end: number;
}

/** The places of secrets in a text (its bytes in UTF-8), in order and without overlap. */
function findSecrets(text: Uint8Array, { literal, decoded, isDecodedAlways, digits }: SecretViews): Span[] {
  const hasEscapes = isDecodedAlways || text.includes(BACKSLASH) || text.includes(PERCENT);
  const views = hasEscapes ? [literal, decoded, digits] : [literal, digits];
  const found = views.flatMap((view) => findIn(text, view));
  const spans: Span[] = [];
  for (const span of found.toSorted((a, b) => a.end - b.end)) keep(spans, span);
  return spans;
}

/** Follows the tree through the text; every secret in it counts, and the beginning of one before a cut. */
function findIn(text: Uint8Array, { read, folded, tree }: SecretView): Span[] {
  const symbols = read(text);
  const { bytes, count } = symbols;
  const { cut, found, pairs } = tree;
  const spans: Span[] = [];
  const symbolAt = (at: number): number => (at < count ? (folded[bytes[at] ?? 0] ?? 0) : 0);
  let state = 0;
  let next = symbolAt(0);
  for (let at = 0; at < count; at++) {
    const symbol = next;
    next = symbolAt(at + 1);
    // At most places of a text no secret begins.
    if (state === 0 && pairs[symbol * 256 + next] === 0) continue;
    const beginning = cut[state] ?? 0;
    if (beginning !== 0 && isCutAt(bytes, at)) keep(spans, spanOf(symbols, at - beginning, at));
    state = advance(tree, state, symbol);
    const ending = found[state] ?? 0;
    if (ending !== 0) keepFound(spans, { text, symbols, tree }, ending, at + 1);
  }
  return spans;
}

/** The span in the text of the symbols from one up to another. */
function spanOf({ ends, hasGaps }: Symbols, from: number, to: number): Span {
  if (ends === null) return { start: from, end: to };
  const start = hasGaps ? (ends[from] ?? 0) - 1 : (ends[from - 1] ?? 0);
  return { start, end: ends[to - 1] ?? start };
}

interface Search {
  text: Uint8Array;
  symbols: Symbols;
  tree: PatternTree;
}

/** Keeps the longest secret that ends before the symbol; any other one that does is a part of it. */
function keepFound(spans: Span[], { text, symbols, tree }: Search, ending: number, to: number): void {
  const { kind, length, fail, found } = tree;
  for (let one = ending; one !== 0; one = found[fail[one] ?? 0] ?? 0) {
    const from = to - (length[one] ?? 0);
    const span = spanOf(symbols, from, to);
    if (kind[one] === KINDS.word && !isWholeWord(text, span, isEscape(symbols, from - 1))) continue;
    if (kind[one] === KINDS.base64) span.end = base64End(text, Math.max(span.end, spans.at(-1)?.end ?? 0));
    keep(spans, span);
    return;
  }
}

/** Spans come in the order of their ends, so only the last ones overlap a new one, and each is removed once at most. */
function keep(spans: Span[], span: Span): void {
  let { start, end } = span;
  for (let last = spans.at(-1); last !== undefined && last.end > start; last = spans.at(-1)) {
    start = Math.min(start, last.start);
    end = Math.max(end, last.end);
    spans.pop();
  }
  spans.push({ start, end });
}

/** True if a symbol, or the character that it ends, is written with several bytes. */
function isEscape({ ends, hasGaps }: Symbols, at: number): boolean {
  if (ends === null || hasGaps) return false;
  let first = at;
  while (first > 0 && ends[first - 1] === ends[at]) first--;
  return (ends[at] ?? 0) - (ends[first - 1] ?? 0) > 1;
}

/** True if no letter or digit is next to it, except for those of an escape before it, such as `\n` and `%20`. */
function isWholeWord(text: Uint8Array, { start, end }: Span, isBehindEscape: boolean): boolean {
  const isEscaped = text[start] === BACKSLASH || text[start] === PERCENT;
  const isBegin = start === 0 || isEscaped || isBehindEscape || !isAlphanumeric(text[start - 1]);
  return isBegin && !isAlphanumeric(text[end]);
}

/** The end of the base64 that continues at this place. */
function base64End(text: Uint8Array, from: number): number {
  let at = from;
  while (isAlphanumeric(text[at]) || '+/=-_'.includes(String.fromCharCode(text[at] ?? 0))) at++;
  return at;
}

function isAlphanumeric(byte = 0): boolean {
  return (byte >= 48 && byte <= 57) || (byte >= 65 && byte <= 90) || (byte >= 97 && byte <= 122);
}
