// Controls, line separators and format characters (bidirectional overrides, zero-width marks): what could move a
// cursor, break a line or reverse the reading order.
const INVISIBLE = /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu;

/**
 * The text on one line, with everything that a terminal would act on instead of showing written as its JSON escape.
 * JSON text stays the same JSON, because these characters can only stand inside its strings.
 */
export function visibleText(text: string): string {
  return text.replace(INVISIBLE, escape);
}

function escape(mark: string): string {
  const units = Array.from({ length: mark.length }, (_, at) => mark.charCodeAt(at));
  return units.map((unit) => `\\u${unit.toString(16).padStart(4, '0')}`).join('');
}
