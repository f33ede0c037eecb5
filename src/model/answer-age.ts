/** How old an answer was when it came, and for how long whoever gave it keeps what it gives. */
export interface AnswerAge {
  /** Milliseconds; 0 for an answer that nobody had kept, as far as it says. */
  ageMs: number;
  /** Milliseconds for which it is kept in all; null if nothing says so. */
  lifetimeMs: number | null;
  /** True if the answer says how old it is. One that says 0 was just fetched, or is kept for less than a second. */
  isTold: boolean;
}

/** `Age` counts whole seconds: what is kept may be almost one second older than it says. */
export const AGE_STEP_MS = 1_000;

const UNKNOWN: AnswerAge = { ageMs: 0, lifetimeMs: null, isTold: false };

/** The age of an answer, by its `Age`, and for how long a cache keeps it, by its `Cache-Control`. Source: RFC 9111. */
export function ageOf(headers: Readonly<Record<string, string | string[] | undefined>>): AnswerAge {
  const age = secondsIn(first(headers['age']) ?? '');
  if (age === null) return UNKNOWN;
  const kept = first(headers['cache-control']) ?? '';
  const lifetime = directive(kept, 's-maxage') ?? directive(kept, 'max-age');
  return {
    ageMs: age === 0 ? 0 : age * 1_000 + AGE_STEP_MS,
    lifetimeMs: lifetime === null ? null : lifetime * 1_000,
    isTold: true,
  };
}

function directive(text: string, name: string): number | null {
  const found = text.split(',').find((part) => part.trim().toLowerCase().startsWith(`${name}=`));
  return found === undefined ? null : secondsIn(found.slice(found.indexOf('=') + 1).replaceAll('"', ''));
}

function secondsIn(text: string): number | null {
  return /^\d{1,9}$/.test(text.trim()) ? Number(text) : null;
}

/** Of a field that came several times the first one counts. */
function first(value: string | string[] | undefined): string | undefined {
  return Array.isArray(value) ? value[0] : value;
}
