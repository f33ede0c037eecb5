// Makes external text safe to show: escapes invisible characters, and recognises names of secrets.

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

function escape(character: string): string {
  const units = Array.from({ length: character.length }, (_, at) => character.charCodeAt(at));
  return units.map((unit) => `\\u${unit.toString(16).padStart(4, '0')}`).join('');
}

/** Words with which the name of a credential ends. */
const SECRET_WORDS: ReadonlySet<string> = new Set(
  'key secret password passwd pass pwd pin otp token jwt credential authorization auth cookie session sid sig signature'
    .split(' ')
    .flatMap((word) => [word, `${word}s`]),
);
/** Words that may be joined to the previous one: `apikey`, `accesstoken`. */
const SECRET_SUFFIX = /(?:key|secret|password|token)s?$/;

/** True for the name of a field, header or query parameter whose value may be a credential: `client_secret`, `apiKey`. */
export function isSecretName(name: string): boolean {
  const words = name
    .replaceAll(/([a-z0-9])([A-Z])/g, '$1 $2')
    .toLowerCase()
    .split(/[^a-z0-9]+/);
  const last = words.findLast((word) => word !== '') ?? '';
  return SECRET_WORDS.has(last) || SECRET_SUFFIX.test(last);
}
