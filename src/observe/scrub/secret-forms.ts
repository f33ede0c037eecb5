import { KINDS, patternTree, type Pattern, type PatternTree } from './pattern-tree.ts';
import { asTheyAre, DIGITS, FOLDED, readDecoded, readDense, readLiteral, type SymbolReader } from './read-symbols.ts';

/** A secret up to this length may be part of ordinary words and numbers, so it is only looked for as a whole word. */
export const SHORT = 7;
/** From this length on, encoded forms are looked for too; those of shorter ones would match by chance. */
const ENCODED_FROM = 6;

/** A text that was cut (it ends in `…`) may end in the beginning of a secret; a shorter one gives nothing away. */
const CUT_FROM = 4;
/** The same of an encoded form, which takes more symbols to say as much. */
const ENCODED_CUT_FROM = 8;

/** One way to read a text: the reader, the folding of its bytes, and the patterns to look for. */
export interface SecretView {
  read: SymbolReader;
  folded: Uint8Array;
  tree: PatternTree;
}

/** The ways to look for secrets in a text, each with every form of each secret. */
export interface SecretViews {
  literal: SecretView;
  /** For a text without escapes the same as `literal`, unless a secret looks like an escape itself. */
  decoded: SecretView;
  isDecodedAlways: boolean;
  digits: SecretView;
}

/** Null if there is nothing to look for. */
export function secretViews(secrets: readonly string[]): SecretViews | null {
  if (secrets.length === 0) return null;
  const textView = (read: SymbolReader): SecretView => {
    const forms = secrets.flatMap((secret) => [...plainForm(secret, read), ...base64Forms(secret)]);
    return { read, folded: FOLDED, tree: patternTree(forms) };
  };
  return {
    literal: textView(readLiteral),
    decoded: textView(readDecoded),
    isDecodedAlways: secrets.some((secret) => /[\\%]/.test(secret)),
    digits: { read: readNumbers, folded: DIGITS, tree: patternTree(secrets.flatMap(digitForms)) },
  };
}

/** A list of numbers may be written with blanks and line breaks in between. */
const readNumbers: SymbolReader = (text) => (SPACED_LIST.test(latin1(text)) ? readDense(text) : asTheyAre(text));
const SPACED_LIST = /,\s+\d/;

function latin1(text: Uint8Array): string {
  return Buffer.from(text.buffer, text.byteOffset, text.byteLength).toString('latin1');
}

/** The secret as the reader returns it; none if it consists of nothing but backslashes. */
function plainForm(secret: string, read: SymbolReader): Pattern[] {
  const symbols = symbolsOf(secret, read);
  if (symbols.length === 0) return [];
  const isShort = secret.length <= SHORT || symbols.length < CUT_FROM;
  return [
    isShort ? { symbols, kind: KINDS.word, cutFrom: Infinity } : { symbols, kind: KINDS.whole, cutFrom: CUT_FROM },
  ];
}

/** The base64 digits that depend on the secret alone, for each of its three alignments within other bytes. */
function base64Forms(secret: string): Pattern[] {
  if (secret.length < ENCODED_FROM) return [];
  const bytes = Buffer.from(secret);
  return [0, 1, 2].map((before) => {
    const padded = Buffer.concat([Buffer.alloc(before), bytes])
      .toString('base64')
      .replaceAll('=', '');
    const whole = padded.slice(Math.ceil((before * 8) / 6), Math.floor(((before + bytes.length) * 8) / 6));
    return { symbols: symbolsOf(whole, asTheyAre), kind: KINDS.base64, cutFrom: ENCODED_CUT_FROM };
  });
}

/** Its bytes in hexadecimal, and as a buffer is serialised. */
function digitForms(secret: string): Pattern[] {
  if (secret.length < ENCODED_FROM) return [];
  const bytes = Buffer.from(secret);
  return [bytes.toString('hex'), bytes.join(',')].map((digits) => {
    return { symbols: Buffer.from(digits), kind: KINDS.whole, cutFrom: ENCODED_CUT_FROM };
  });
}

function symbolsOf(text: string, read: SymbolReader): Uint8Array {
  const { bytes, count } = read(Buffer.from(text));
  return bytes.subarray(0, count).map((byte) => FOLDED[byte] ?? byte);
}
