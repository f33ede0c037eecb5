/** A secret up to this length may be part of ordinary words and numbers, so it is only looked for as a whole word. */
const SHORT = 7;
/** From this length on, encoded forms are looked for too; those of shorter ones would match by chance. */
const ENCODED_FROM = 6;

/** A text that was cut (it ends in `…`) may end in the beginning of a secret; a shorter one gives nothing away. */
const CUT_FROM = 4;

const STAND_IN = '***';

/**
 * Takes secrets out of a text of ours, which may quote others: as `scrub` does, but only those that are too long to be
 * a word or a figure of what we say. What is quoted loses the short ones before, where it is put into the sentence.
 */
export function scrubOwn(text: string, secrets: readonly string[]): string {
  const pattern = patternFor(secrets, LONG);
  return pattern === null ? text : text.replace(pattern, STAND_IN);
}

/**
 * Takes secrets out of a text of others. Replaces every secret in it by `***` (or another text without `$`): as it is, escaped for JSON (any number of
 * times), escaped for a URL, as base64 (also inside longer base64, as in basic authentication), hex or a list of bytes,
 * and its beginning where a text was cut there. `secrets` may grow between calls; it is read each time.
 */
export function scrub(text: string, secrets: readonly string[], standIn: string = STAND_IN): string {
  const pattern = patternFor(secrets, ALL);
  return pattern === null ? text : text.replace(pattern, standIn);
}

/** Which secrets are looked for, and the patterns that were made for each list of them. */
interface Choice {
  isChosen: (secret: string) => boolean;
  patterns: WeakMap<readonly string[], { count: number; pattern: RegExp | null }>;
}

const ALL: Choice = { isChosen: (secret) => secret !== '', patterns: new WeakMap() };
const LONG: Choice = { isChosen: (secret) => secret.length > SHORT, patterns: new WeakMap() };

function patternFor(secrets: readonly string[], { isChosen, patterns }: Choice): RegExp | null {
  const known = patterns.get(secrets);
  if (known?.count === secrets.length) return known.pattern;
  const longestFirst = [...new Set(secrets)].filter(isChosen).toSorted((a, b) => b.length - a.length);
  const forms = longestFirst.flatMap(formsOf);
  const pattern = forms.length === 0 ? null : new RegExp(forms.join('|'), 'g');
  patterns.set(secrets, { count: secrets.length, pattern });
  return pattern;
}

function formsOf(secret: string): string[] {
  const chars = Array.from(secret, charForm);
  const plain = chars.join('');
  if (secret.length <= SHORT) {
    const word = `${WORD_BEFORE}(?:${plain})${WORD_AFTER}`;
    return secret.length < ENCODED_FROM ? [word] : [word, ...encodedForms(Buffer.from(secret))];
  }
  return [plain, beginning(chars), ...encodedForms(Buffer.from(secret))];
}

/** What is left of a secret where a long text was cut within it. */
function beginning(chars: readonly string[]): string {
  const rest = chars.slice(CUT_FROM).reduceRight((inner, char) => `(?:${char}${inner})?`, '');
  return `${chars.slice(0, CUT_FROM).join('')}${rest}(?=…)`;
}

// `\n` in JSON text and `%20` in a URL end in letters and digits that do not belong to the word after them.
const WORD_BEFORE = String.raw`(?<=^|[^A-Za-z0-9]|\\[bfnrt]|\\u[0-9a-f]{4}|%[0-9A-Fa-f]{2})`;
const WORD_AFTER = '(?![A-Za-z0-9])';

/** One character: letters and digits as they are, all else also as JSON and URLs may write it. */
function charForm(char: string): string {
  if (/^[A-Za-z0-9]$/.test(char)) return char;
  const escaped = JSON.stringify(char).slice(1, -1);
  const letter = /^\\[bfnrt]$/.test(escaped) ? escaped.slice(1) : null;
  const bytes = [...Buffer.from(char)].map((byte) => `%(?:25)*${caseless(byte.toString(16).padStart(2, '0'))}`);
  const units = Array.from({ length: char.length }, (_, at) => char.charCodeAt(at).toString(16).padStart(4, '0'));
  const forms = [
    String.raw`\\*${literal(char)}`,
    bytes.join(''),
    units.map((unit) => `\\\\+u${caseless(unit)}`).join(''),
  ];
  if (letter !== null) forms.push(String.raw`\\+${letter}`);
  if (char === ' ') forms.push(String.raw`\+`);
  return `(?:${forms.join('|')})`;
}

function encodedForms(bytes: Buffer): string[] {
  const hex = caseless(bytes.toString('hex'));
  return [...base64Cores(bytes).map((core) => `${core}[\\w+/=-]*`), hex, [...bytes].join(',[ ]*')];
}

/** The base64 digits that the secret alone decides, for each of the three ways in which it can lie in other bytes. */
function base64Cores(bytes: Buffer): string[] {
  return [0, 1, 2].map((before) => {
    const padded = Buffer.concat([Buffer.alloc(before), bytes])
      .toString('base64')
      .replaceAll('=', '');
    const whole = padded.slice(Math.ceil((before * 8) / 6), Math.floor(((before + bytes.length) * 8) / 6));
    return whole.replaceAll('+', '[+-]').replaceAll('/', String.raw`(?:\\*/|_)`);
  });
}

function caseless(hex: string): string {
  return hex.replace(/[a-f]/g, (digit) => `[${digit}${digit.toUpperCase()}]`);
}

function literal(char: string): string {
  return char.replace(/[\\^$.*+?()[\]{}|/-]/, String.raw`\$&`);
}
