const RAW = /\braw`(?:[^`\\]|\\.)*?[^\0-\x7f]/s;

/**
 * JavaScript that says the same in ASCII alone, with escapes for all other letters: with one that is not of Latin-1, the
 * engine keeps two bytes for each letter of a file, as long as the process lives. Throws if a raw template has one:
 * there an escape would be something else.
 */
export function asPlainLetters(code: string): string {
  const raw = RAW.exec(code);
  if (raw !== null) throw new Error(`a raw template has a letter that cannot be escaped: ${raw[0]}`);
  return code.replaceAll(/[^\0-\x7f]/g, (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`);
}
