import { findSecrets, type Span } from './find-secrets.ts';
import { secretViews, SHORT, type SecretViews } from './secret-forms.ts';

const STAND_IN = '***';

/**
 * Takes secrets out of a text of ours, which may quote others: as `scrub` does, but only those that are too long to be
 * a word or a figure of what we say. What is quoted loses the short ones before, where it is put into the sentence.
 */
export function scrubOwn(text: string, secrets: readonly string[]): string {
  return scrubChosen(text, secrets, LONG, STAND_IN);
}

/**
 * Takes secrets out of a text of others. Replaces every secret in it by `***` (or another text): as it is, escaped for
 * JSON or for a URL (any number of times), as base64 (also inside longer base64, as in basic authentication), hex or a
 * list of bytes, and its beginning where a text was cut there. `secrets` may grow between calls; it is read each time.
 *
 * The time is linear in the text's length, whatever the text and the secrets are: both may come from a stranger.
 */
export function scrub(text: string, secrets: readonly string[], standIn: string = STAND_IN): string {
  return scrubChosen(text, secrets, ALL, standIn);
}

/** True where `scrub` would take something out. */
export function holdsSecret(text: string, secrets: readonly string[]): boolean {
  const views = viewsFor(secrets, ALL);
  return views !== null && findSecrets(Buffer.from(text), views).length > 0;
}

/** Which secrets are looked for, and how, for each list of them. */
interface Choice {
  isChosen: (secret: string) => boolean;
  known: WeakMap<readonly string[], { count: number; views: SecretViews | null }>;
}

const ALL: Choice = { isChosen: (secret) => secret !== '', known: new WeakMap() };
const LONG: Choice = { isChosen: (secret) => secret.length > SHORT, known: new WeakMap() };

function scrubChosen(text: string, secrets: readonly string[], choice: Choice, standIn: string): string {
  const views = viewsFor(secrets, choice);
  if (views === null) return text;
  const bytes = Buffer.from(text);
  const spans = findSecrets(bytes, views);
  if (spans.length === 0) return text;
  return replaced(text, bytes.length === text.length ? spans : inCharacters(spans, text), standIn);
}

function replaced(text: string, spans: readonly Span[], standIn: string): string {
  const from = [0, ...spans.map(({ end }) => end)];
  return from.map((at, index) => text.slice(at, spans[index]?.start)).join(standIn);
}

/** Spans of a text's bytes as those of the text, which is kept as it is: halves of characters, too, have three bytes. */
function inCharacters(spans: readonly Span[], text: string): Span[] {
  let [at, bytes] = [0, 0];
  const upTo = (wanted: number): number => {
    while (bytes < wanted && at < text.length) {
      const point = text.codePointAt(at) ?? 0;
      at += point > 0xffff ? 2 : 1;
      bytes += point < 0x80 ? 1 : point < 0x800 ? 2 : point > 0xffff ? 4 : 3;
    }
    return at;
  };
  return spans.map(({ start, end }) => ({ start: upTo(start), end: upTo(end) }));
}

function viewsFor(secrets: readonly string[], { isChosen, known }: Choice): SecretViews | null {
  const last = known.get(secrets);
  if (last?.count === secrets.length) return last.views;
  const views = secretViews([...new Set(secrets)].filter(isChosen));
  known.set(secrets, { count: secrets.length, views });
  return views;
}
