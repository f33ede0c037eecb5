// Controls, line separators and format characters (bidirectional overrides, zero-width marks), which could move a cursor,
// break a line or reverse the reading order.
const INVISIBLE = /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu;

/**
 * Replaces characters that a terminal would interpret by their JSON escapes. JSON text keeps its meaning, because these
 * characters can only be inside its strings.
 */
export function visibleText(text: string): string {
  return text.replace(INVISIBLE, escape);
}

function escape(mark: string): string {
  const units = Array.from({ length: mark.length }, (_, at) => mark.charCodeAt(at));
  return units.map((unit) => `\\u${unit.toString(16).padStart(4, '0')}`).join('');
}
