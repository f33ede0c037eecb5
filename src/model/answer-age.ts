/** How old a response was when it came, and for how long the cache that sent it keeps responses. */
export interface AnswerAge {
  /** Milliseconds; 0 for a response that did not come from a cache, as far as its headers show. */
  ageMs: number;
  /** Milliseconds for which the cache keeps it; null if no header says so. */
  lifetimeMs: number | null;
  /** True if the response states its age. An age of 0 means just fetched, or cached for less than a second. */
  isTold: boolean;
}

/** `Age` counts whole seconds, so a response may be almost one second older than it states. */
export const AGE_STEP_MS = 1_000;

/** Reads the age by `Age`, and the lifetime in a cache by `Cache-Control` (RFC 9111). */
export function readAnswerAge(headers: Readonly<Record<string, string | string[] | undefined>>): AnswerAge {
  const age = toSeconds(firstValue(headers['age']));
  if (age === null) return { ageMs: 0, lifetimeMs: null, isTold: false };
  const cacheControl = firstValue(headers['cache-control']);
  const lifetime = directive(cacheControl, 's-maxage') ?? directive(cacheControl, 'max-age');
  return {
    ageMs: age === 0 ? 0 : age * 1_000 + AGE_STEP_MS,
    lifetimeMs: lifetime === null ? null : lifetime * 1_000,
    isTold: true,
  };
}

function directive(text: string, name: string): number | null {
  const found = text.split(',').find((part) => part.trim().toLowerCase().startsWith(`${name}=`));
  return found === undefined ? null : toSeconds(found.slice(found.indexOf('=') + 1).replaceAll('"', ''));
}

function toSeconds(text: string): number | null {
  return /^\d{1,9}$/.test(text.trim()) ? Number(text) : null;
}

/** If a header occurs several times, the first one counts. */
function firstValue(value: string | string[] | undefined): string {
  return (Array.isArray(value) ? value[0] : value) ?? '';
}
