/*
 * Finds where things end in a text that `JSON.parse` has already accepted. Nothing is validated and nothing recurses,
 * so any depth is fine.
 */

const QUOTE = 34;
const COMMA = 44;
const OPEN_BRACKET = 91;
const BACKSLASH = 92;
const CLOSE_BRACKET = 93;
const OPEN_BRACE = 123;
const CLOSE_BRACE = 125;

/** The first position at or after `at` that is not white space. */
export function skipSpace(text: string, at: number): number {
  let position = at;
  while (text.charCodeAt(position) <= 32) position++;
  return position;
}

/** The position after the closing quote of the string that opens at `open`. */
export function stringEnd(text: string, open: number): number {
  let close = text.indexOf('"', open + 1);
  while (text.charCodeAt(close - 1) === BACKSLASH && isEscaped(text, close)) close = text.indexOf('"', close + 1);
  return close + 1;
}

/** True if an odd number of backslashes stands before `quote`. */
function isEscaped(text: string, quote: number): boolean {
  let first = quote;
  while (text.charCodeAt(first - 1) === BACKSLASH) first--;
  return (quote - first) % 2 === 1;
}

/** The position after the value that begins at `start`. */
export function valueEnd(text: string, start: number): number {
  const first = text.charCodeAt(start);
  if (first === QUOTE) return stringEnd(text, start);
  if (first === OPEN_BRACE || first === OPEN_BRACKET) return containerEnd(text, start);
  return literalEnd(text, start);
}

function containerEnd(text: string, start: number): number {
  let depth = 0;
  let at = start;
  for (;;) {
    const code = text.charCodeAt(at);
    if (code === QUOTE) {
      at = stringEnd(text, at);
      continue;
    }
    if (code === OPEN_BRACE || code === OPEN_BRACKET) depth++;
    else if ((code === CLOSE_BRACE || code === CLOSE_BRACKET) && --depth === 0) return at + 1;
    at++;
  }
}

function literalEnd(text: string, start: number): number {
  let at = start;
  while (at < text.length) {
    const code = text.charCodeAt(at);
    if (code <= 32 || code === COMMA || code === CLOSE_BRACKET || code === CLOSE_BRACE) break;
    at++;
  }
  return at;
}

/** The text with every container deeper than `limit` levels replaced by `null`. */
export function cutDeep(text: string, limit: number): string {
  const kept: string[] = [];
  let from = 0;
  let depth = 0;
  let at = 0;
  while (at < text.length) {
    const code = text.charCodeAt(at);
    if (code === QUOTE) {
      at = stringEnd(text, at);
      continue;
    }
    if (code === CLOSE_BRACE || code === CLOSE_BRACKET) depth--;
    else if ((code === OPEN_BRACE || code === OPEN_BRACKET) && ++depth > limit) {
      kept.push(text.slice(from, at), 'null');
      at = containerEnd(text, at);
      from = at;
      depth--;
      continue;
    }
    at++;
  }
  kept.push(text.slice(from));
  return kept.join('');
}
