/** So many characters are looked at. */
const SAMPLE = 4_096;

/** Control characters besides blanks and the escape of ISO 2022. */
function isNoText(byte: number): boolean {
  return byte < 9 || (byte > 13 && byte < 32 && byte !== 27);
}

/**
 * The type of a text, as far as a server has to know it: pages and drawings, which may hold scripts, other XML, JSON, and
 * any other text. Null for what is no text. Linear in the length of the head.
 */
export function textTypeOf(head: Buffer): string | null {
  const sample = head.subarray(0, SAMPLE);
  if (sample.length === 0 || sample.some(isNoText)) return null;
  const text = sample.toString('latin1');
  const start = text.slice(contentAt(text));
  if (/^<svg[\s>/]/i.test(start)) return 'image/svg+xml';
  if (start.startsWith('<')) return text.includes('<?xml') && !PAGE.test(start) ? 'application/xml' : 'text/html';
  return /^[{[]/.test(start) ? 'application/json' : 'text/plain';
}

const PAGE = /^<(?:!doctype html|html|head|body|script)\b/i;

/** What may stand before the first element, where it tells nothing: a byte order mark, blanks, declarations and comments. */
const BEFORE: readonly (readonly [string, string])[] = [
  ['<?', '?>'],
  ['<!--', '-->'],
  ['<!doctype svg', '>'],
];

function contentAt(text: string): number {
  let at = text.startsWith('\u00ef\u00bb\u00bf') ? 3 : 0;
  for (;;) {
    while (/\s/.test(text.charAt(at))) at += 1;
    const found = BEFORE.find(([opening]) => text.slice(at, at + opening.length).toLowerCase() === opening);
    const end = found === undefined ? -1 : text.indexOf(found[1], at);
    if (found === undefined || end === -1) return at;
    at = end + found[1].length;
  }
}
