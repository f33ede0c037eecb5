/*
 * Readers of the bytes (UTF-8) of a text, which reduce several ways of writing to one. Each reads any text once from
 * its beginning to its end.
 */

/** A text as a reader returns it, byte by byte. */
export interface Symbols {
  bytes: Uint8Array;
  /** How many of `bytes` there are. */
  count: number;
  /** The place in the text after each of them; null if they are those of the text. */
  ends: Int32Array | null;
  /** True if there may be bytes between two of them that belong to neither. */
  hasGaps: boolean;
}

export type SymbolReader = (text: Uint8Array) => Symbols;

const BLANK = 32;
const QUOTE = 34;
export const PERCENT = 37;
const PLUS = 43;
const MINUS = 45;
const SLASH = 47;
export const BACKSLASH = 92;
const UNDERSCORE = 95;
const LETTER_U = 117;

const ALIKE: ReadonlyMap<number, number> = new Map([
  [BLANK, PLUS],
  [MINUS, PLUS],
  [UNDERSCORE, SLASH],
  ...['\bb', '\ff', '\nn', '\rr', '\tt'].map((pair): [number, number] => [pair.charCodeAt(0), pair.charCodeAt(1)]),
]);
/**
 * What each byte is folded to: the two alphabets of base64 are one, and so are a blank and the `+` of a form, and a
 * line break and the `n` of its escape, which may as well be a letter with a backslash before it.
 */
export const FOLDED = Uint8Array.from({ length: 256 }, (_, byte) => ALIKE.get(byte) ?? byte);
/** The same for digits: hexadecimal ones in lower case; all that is no part of a number or a list becomes a quote. */
export const DIGITS = Uint8Array.from({ length: 256 }, (_, byte) => {
  const lower = String.fromCharCode(byte).toLowerCase();
  return /[0-9a-f,]/.test(lower) ? lower.charCodeAt(0) : QUOTE;
});

/** Reads the text as it is, without backslashes: however many precede a character, they are taken for its escape. */
export const readLiteral: SymbolReader = (text) => {
  if (!text.includes(BACKSLASH)) return asTheyAre(text);
  const writer = writerFor(text);
  for (let at = 0; at < text.length; at++) {
    const byte = text[at] ?? 0;
    if (byte !== BACKSLASH) write(writer, byte, at + 1);
  }
  return writer;
};

/** Undoes escapes, those of JSON and those of URLs, however often they were applied. */
export const readDecoded: SymbolReader = (text) => {
  if (!text.includes(BACKSLASH) && !text.includes(PERCENT)) return asTheyAre(text);
  const writer = writerFor(text);
  for (let at = 0; at < text.length;) {
    const first = text[at] ?? 0;
    if (first !== BACKSLASH && first !== PERCENT) {
      write(writer, first, ++at);
      continue;
    }
    const start = at;
    for (let next = backslashEnd(text, at); next > at; next = backslashEnd(text, at)) at = next;
    if (text[at] === PERCENT) at = readPercent(text, at, writer);
    else if (at > start && at < text.length) at = readEscaped(text, at, writer);
  }
  return writer;
};

/** Leaves out blanks and line breaks, which may separate the numbers of a list. */
export const readDense: SymbolReader = (text) => {
  const writer = { ...writerFor(text), hasGaps: true };
  for (let at = 0; at < text.length; at++) {
    const byte = text[at] ?? 0;
    if (byte > BLANK) write(writer, byte, at + 1);
  }
  return writer;
};

export function asTheyAre(text: Uint8Array): Symbols {
  return { bytes: text, count: text.length, ends: null, hasGaps: false };
}

/** True at the mark `…`, at which a text was cut. */
export function isCutAt(text: Uint8Array, at: number): boolean {
  return text[at] === 0xe2 && text[at + 1] === 0x80 && text[at + 2] === 0xa6;
}

interface Writer extends Symbols {
  ends: Int32Array;
}

/** No reader returns more bytes than the text has. */
function writerFor(text: Uint8Array): Writer {
  const [bytes, ends] = [new Uint8Array(text.length), new Int32Array(text.length)];
  return { bytes, count: 0, ends, hasGaps: false };
}

function write(writer: Writer, byte: number, end: number): void {
  writer.bytes[writer.count] = byte;
  writer.ends[writer.count++] = end;
}

/** The place after a backslash, also one that is escaped for a URL; the same place if there is none. */
function backslashEnd(text: Uint8Array, at: number): number {
  const byte = text[at];
  if (byte === BACKSLASH) return at + 1;
  if (byte !== PERCENT) return at;
  const digits = percentDigits(text, at);
  return hexAt(text, digits, 2) === BACKSLASH ? digits + 2 : at;
}

/** The place of the digits of `%41`, even if its percent sign was escaped (`%2541`) any number of times. */
function percentDigits(text: Uint8Array, sign: number): number {
  let at = sign + 1;
  while (hexAt(text, at, 2) === PERCENT && hexAt(text, at + 2, 2) !== -1) at += 2;
  return at;
}

function readPercent(text: Uint8Array, sign: number, writer: Writer): number {
  const digits = percentDigits(text, sign);
  const byte = hexAt(text, digits, 2);
  const end = byte === -1 ? digitsEnd(text, digits, 1) : digits + 2;
  // Half an escape is ignored, and so is a percent sign whose digits were cut off.
  if (isCutAt(text, end) && (byte === -1 || byte === PERCENT)) return end;
  const next = byte === -1 ? sign + 1 : end;
  write(writer, byte === -1 ? PERCENT : byte, next);
  return next;
}

/** Reads the character after backslashes. */
function readEscaped(text: Uint8Array, at: number, writer: Writer): number {
  const byte = text[at] ?? 0;
  const unit = byte === LETTER_U ? hexAt(text, at + 1, 4) : -1;
  if (unit !== -1) return readUnit(text, unit, at + 5, writer);
  const cut = byte === LETTER_U ? digitsEnd(text, at + 1, 3) : at;
  if (isCutAt(text, cut) && cut > at) return cut;
  write(writer, byte, at + 1);
  return at + 1;
}

/** Reads a `\u` escape that ends at this place, with its second half if it has one. */
function readUnit(text: Uint8Array, unit: number, end: number, writer: Writer): number {
  let next = end;
  if (unit >= 0xd800 && unit < 0xdc00) while (text[next] === BACKSLASH) next++;
  const second = next > end && text[next] === LETTER_U ? hexAt(text, next + 1, 4) : -1;
  if (second < 0xdc00 || second > 0xdfff) return writePoint(unit, end, writer);
  return writePoint((unit - 0xd800) * 0x400 + (second - 0xdc00) + 0x10000, next + 5, writer);
}

/** A character in UTF-8; half a one, too. */
function writePoint(point: number, end: number, writer: Writer): number {
  const rest = point < 0x80 ? 0 : point < 0x800 ? 1 : point < 0x10000 ? 2 : 3;
  write(writer, rest === 0 ? point : ((0xf00 >> (rest + 1)) & 0xff) | (point >> (6 * rest)), end);
  for (let left = rest - 1; left >= 0; left--) write(writer, 0x80 | ((point >> (6 * left)) & 0x3f), end);
  return end;
}

/** The number of so many hexadecimal digits; -1 if there are others. */
function hexAt(text: Uint8Array, at: number, count: number): number {
  let number = 0;
  for (let next = at; next < at + count; next++) {
    const digit = hexDigit(text[next] ?? 0);
    if (digit === -1) return -1;
    number = number * 16 + digit;
  }
  return number;
}

function digitsEnd(text: Uint8Array, at: number, most: number): number {
  let end = at;
  while (end < at + most && hexDigit(text[end] ?? 0) !== -1) end++;
  return end;
}

/** -1 for anything else. */
function hexDigit(byte: number): number {
  if (byte >= 48 && byte <= 57) return byte - 48;
  const lower = byte | 0x20;
  return lower >= 97 && lower <= 102 ? lower - 87 : -1;
}
