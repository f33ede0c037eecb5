const STAND_IN = '***';
/** A secret up to this length may be part of ordinary words and numbers, so it is only looked for as a whole word. */
const SHORT = 7;
/** From this length on, encoded forms are looked for too; those of shorter ones would match by chance. */
const ENCODED_FROM = 6;
/** A text that was cut (it ends in `…`) may end in the beginning of a secret; a shorter one gives nothing away. */
const CUT_FROM = 4;

/** Ways in which a secret is written: as it is, and as JSON, URLs, forms and headers write it. */
interface Forms {
  /** Finds a short secret as a word; null for a long one, which is found anywhere. */
  word: RegExp | null;
  written: readonly string[];
}

const known = new Map<string, Forms>();

/**
 * Removes secrets from foreign text. Replaces every secret in it by `***` (or another text): as it is, escaped for
 * JSON or for a URL (also twice), as base64 (also inside longer base64, as in basic authentication), in hex or a
 * list of bytes, and its beginning if the text was cut there. `secrets` may grow between calls; it is read each time.
 */
export function scrub(text: string, secrets: readonly string[], standIn: string = STAND_IN): string {
  // A longer secret first, because a shorter one may be a part of it.
  const longestFirst = secrets.filter((secret) => secret !== '').toSorted((a, b) => b.length - a.length);
  let clean = text;
  for (const { word, written } of longestFirst.map(formsOf)) {
    if (word !== null) clean = clean.replace(word, standIn);
    for (const form of written) clean = clean.replaceAll(form, standIn);
  }
  if (!clean.includes('…')) return clean;
  const parts = clean.split('…');
  const cut = parts.slice(0, -1).map((part) => withoutBeginning(part, longestFirst, standIn));
  return [...cut, ...parts.slice(-1)].join('…');
}

/**
 * Removes secrets from our own text, which may quote others: as `scrub` does, but only those that are too long to be a
 * word or a figure of the sentence. Quotations are scrubbed of short ones before they are put into it.
 */
export function scrubOwn(text: string, secrets: readonly string[], standIn: string = STAND_IN): string {
  return scrub(
    text,
    secrets.filter((secret) => secret.length > SHORT),
    standIn,
  );
}

/** True if `scrub` would remove something. */
export function holdsSecret(text: string, secrets: readonly string[]): boolean {
  return scrub(text, secrets, '') !== text;
}

/**
 * One line of JSON without the secrets, and still JSON: a secret of digits may have been a number, which `***` cannot
 * replace as it is.
 */
export function scrubJson(line: string, secrets: readonly string[]): string {
  const scrubbed = scrubOwn(line, secrets);
  if (scrubbed === line || isJson(scrubbed)) return scrubbed;
  if (!isJson(line)) return JSON.stringify({ level: 'error', msg: STAND_IN });
  // A buffer is written as the list of its bytes.
  const hide = (_: string, value: unknown): unknown =>
    (typeof value === 'number' || Array.isArray(value)) && holdsSecret(String(value), secrets) ? STAND_IN : value;
  return scrubOwn(JSON.stringify(JSON.parse(line, hide)), secrets);
}

/** True for valid JSON. */
export function isJson(text: string): boolean {
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
}

function formsOf(secret: string): Forms {
  const before = known.get(secret);
  if (before !== undefined) return before;
  // What a service quotes may be quoted again, by another one and by the log.
  const once = escapes(secret);
  const escaped = new Set([secret, ...once, ...once.flatMap(escapes)]);
  const isShort = secret.length <= SHORT;
  const written = [...(isShort ? [] : escaped), ...(secret.length < ENCODED_FROM ? [] : encodings(secret))];
  const forms = { word: isShort ? wordOf(secret) : null, written: written.toSorted((a, b) => b.length - a.length) };
  known.set(secret, forms);
  return forms;
}

/** A word has no letter or digit next to it, except for those of an escape before it, such as `\n` and `%20`. */
function wordOf(secret: string): RegExp {
  return new RegExp(`(?<=^|[^A-Za-z0-9]|\\\\[bfnrt]|%[0-9A-Fa-f]{2})${RegExp.escape(secret)}(?![A-Za-z0-9])`, 'g');
}

/** The text as JSON, a URL and a form write it, each in its usual variants. */
function escapes(text: string): string[] {
  const json = JSON.stringify(text).slice(1, -1);
  const ascii = json
    .replaceAll('/', '\\/')
    .replace(/[^ -~]/g, (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`);
  const url = encodeURIComponent(text.toWellFormed());
  const form = new URLSearchParams({ k: text }).toString().slice(2);
  const lower = [url, form].map((each) => each.replace(/%../g, (code) => code.toLowerCase()));
  return [json, ascii, url, form, encodeURI(text.toWellFormed()), ...lower];
}

/** Its bytes in hex and as a list, and the base64 digits that depend on it alone, for each alignment within other bytes. */
function encodings(secret: string): string[] {
  const bytes = Buffer.from(secret);
  const base64 = [0, 1, 2].flatMap((before) => {
    const digits = Buffer.concat([Buffer.alloc(before), bytes]).toString('base64url');
    const own = digits.slice(Math.ceil((before * 8) / 6), Math.floor(((before + bytes.length) * 8) / 6));
    return [own, own.replaceAll('-', '+').replaceAll('_', '/')];
  });
  const hex = bytes.toString('hex');
  return [...new Set([...base64, hex, hex.toUpperCase(), bytes.join(',')])];
}

/** The text without the beginning of a secret at its end. */
function withoutBeginning(text: string, secrets: readonly string[], standIn: string): string {
  for (const { written } of secrets.map(formsOf)) {
    for (const form of written) {
      for (let length = Math.min(form.length - 1, text.length); length >= CUT_FROM; length -= 1) {
        if (text.endsWith(form.slice(0, length))) return text.slice(0, -length) + standIn;
      }
    }
  }
  return text;
}
