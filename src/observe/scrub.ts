/**
 * Prepares texts before they are written anywhere: removes secrets (`scrub`), and spells the commands in hints as the
 * user can type them (`toTypableCommands`).
 */

const REPLACEMENT = '***';
/** A secret up to this length may be part of ordinary words and numbers, so it is only replaced as a whole word. */
const MAX_SHORT_LENGTH = 7;
/** The base64 or hex form of a shorter secret would match other text by chance. */
const MIN_ENCODED_LENGTH = 6;
/** A text that was cut at `…` may end with the beginning of a secret; fewer characters of it reveal nothing. */
const MIN_CUT_LENGTH = 4;

/** The spellings of a secret: plain, and as JSON, URLs, HTML forms and headers write it. */
interface SecretSpellings {
  /** Matches a short secret as a word; null for a long one, which is replaced everywhere. */
  word: RegExp | null;
  /** The longest first. */
  spellings: readonly string[];
}

const spellingsCache = new Map<string, SecretSpellings>();

/**
 * Replaces every secret in external text by `***` (or another text): plain, escaped for JSON or a URL (also twice), in
 * base64 (also inside longer base64, as in basic authentication), in hex or as a list of bytes, and its beginning if the
 * text was cut there. `secrets` may grow between calls.
 */
export function scrub(text: string, secrets: readonly string[], replacement: string = REPLACEMENT): string {
  // Longer secrets come first, because a shorter one may be part of them.
  const longestFirst = secrets.filter((secret) => secret !== '').toSorted((a, b) => b.length - a.length);
  let clean = text;
  for (const { word, spellings } of longestFirst.map(spellSecret)) {
    if (word !== null) clean = clean.replace(word, replacement);
    for (const spelling of spellings) clean = clean.replaceAll(spelling, replacement);
  }
  if (!clean.includes('…')) return clean;
  const parts = clean.split('…');
  const cut = parts.slice(0, -1).map((part) => withoutBeginning(part, longestFirst, replacement));
  return [...cut, ...parts.slice(-1)].join('…');
}

/**
 * Replaces secrets in a text that content-sync has written, such as a log line. Short secrets stay, because `day` or `401`
 * may be words of its sentence: they are removed from external text by `scrub` before that is inserted.
 */
export function scrubOwn(text: string, secrets: readonly string[], replacement: string = REPLACEMENT): string {
  const long = secrets.filter((secret) => secret.length > MAX_SHORT_LENGTH);
  return scrub(text, long, replacement);
}

/** True if `scrub` would remove something. */
export function holdsSecret(text: string, secrets: readonly string[]): boolean {
  return scrub(text, secrets, '') !== text;
}

/**
 * Replaces secrets in one line of JSON, which stays JSON: a secret of digits may be a number, which becomes a string.
 */
export function scrubJson(line: string, secrets: readonly string[]): string {
  const scrubbed = scrubOwn(line, secrets);
  if (scrubbed === line || isJson(scrubbed)) return scrubbed;
  if (!isJson(line)) return JSON.stringify({ level: 'error', msg: REPLACEMENT });
  // A buffer is serialised as the list of its bytes.
  const hide = (_: string, value: unknown): unknown =>
    (typeof value === 'number' || Array.isArray(value)) && holdsSecret(String(value), secrets) ? REPLACEMENT : value;
  return scrubOwn(JSON.stringify(JSON.parse(line, hide)), secrets);
}

export function isJson(text: string): boolean {
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
}

function spellSecret(secret: string): SecretSpellings {
  const cached = spellingsCache.get(secret);
  if (cached !== undefined) return cached;
  // A quoted text may be quoted again, by another service and by the log.
  const once = escapes(secret);
  const escaped = new Set([secret, ...once, ...once.flatMap(escapes)]);
  const isShort = secret.length <= MAX_SHORT_LENGTH;
  const spellings = [...(isShort ? [] : escaped), ...(secret.length < MIN_ENCODED_LENGTH ? [] : encodings(secret))];
  const spelled = {
    word: isShort ? wordPattern(secret) : null,
    spellings: spellings.toSorted((a, b) => b.length - a.length),
  };
  spellingsCache.set(secret, spelled);
  return spelled;
}

/** A word has no letter or digit next to it, except those of a preceding escape such as `\n` or `%20`. */
function wordPattern(secret: string): RegExp {
  return new RegExp(`(?<=^|[^A-Za-z0-9]|\\\\[bfnrt]|%[0-9A-Fa-f]{2})${RegExp.escape(secret)}(?![A-Za-z0-9])`, 'g');
}

/** Escapes the text for JSON (also as ASCII, with `\/`), a URL and a form (hex digits in both cases). */
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

/** The bytes in hex and as a list, and the base64 digits that do not depend on neighbouring bytes, for each alignment. */
function encodings(secret: string): string[] {
  const bytes = Buffer.from(secret);
  const base64 = [0, 1, 2].flatMap((before) => {
    const digits = Buffer.concat([Buffer.alloc(before), bytes]).toString('base64url');
    const certain = digits.slice(Math.ceil((before * 8) / 6), Math.floor(((before + bytes.length) * 8) / 6));
    return [certain, certain.replaceAll('-', '+').replaceAll('_', '/')];
  });
  const hex = bytes.toString('hex');
  return [...new Set([...base64, hex, hex.toUpperCase(), bytes.join(',')])];
}

/** Replaces the beginning of a secret with which the text ends. */
function withoutBeginning(text: string, secrets: readonly string[], replacement: string): string {
  for (const { spellings } of secrets.map(spellSecret)) {
    for (const spelling of spellings) {
      for (let length = Math.min(spelling.length - 1, text.length); length >= MIN_CUT_LENGTH; length -= 1) {
        if (text.endsWith(spelling.slice(0, length))) return text.slice(0, -length) + replacement;
      }
    }
  }
  return text;
}

const COMMAND =
  /(?<![\w/-])content-sync (?=(?:init|check|probe|backfill|sync|serve|worker|control|warehouse|health|pause|resume|retry|status|runs|verify|files|grants|rebuild|forget|deletes|deliveries|alerts|backup|export|demo|sandbox|config|explain)\b)/g;

/** Rewrites commands so that the user can type them: in a clone, npm runs content-sync by a script of package.json. */
export function toTypableCommands(text: string): string {
  const script = process.env['npm_lifecycle_event'] ?? '';
  return ['content-sync', 'demo'].includes(script) ? text.replace(COMMAND, 'npm run -s content-sync -- ') : text;
}
