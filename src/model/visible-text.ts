// Controls, line separators, bidirectional overrides and zero-width marks: what could move a cursor, break a line or
// reverse the reading order. JSON already escapes those below U+0020, so what is left here is safe inside JSON text.
const INVISIBLE = /[\u0000-\u001f\u007f-\u009f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]/g;

/** The text on one line, with everything that a terminal would act on instead of showing written as `\uXXXX`. */
export function visibleText(text: string): string {
  return text.replace(INVISIBLE, (mark) => `\\u${mark.charCodeAt(0).toString(16).padStart(4, '0')}`);
}
