/** A word that still works and that another has replaced. */
interface DeprecatedWord {
  /** In a profile, or in a source of the settings. */
  in: 'profile' | 'source';
  /** Keys down to the word; `*` stands for any key or list position. */
  path: readonly string[];
  /** The new word, as a person writes it; null if the word has no effect any more. */
  instead: string | null;
}

/** All of them. A word that is replaced becomes a line here, and is marked `deprecated` in its schema for editors. */
const DEPRECATED_WORDS: readonly DeprecatedWord[] = [
  { in: 'profile', path: ['oauth'], instead: 'auth: { type: oauth, token_path: ..., client_auth: ... }' },
  { in: 'profile', path: ['rate_limit', 'quotas'], instead: null },
];

/** A deprecated word that was found: where, and what to write. */
export interface Deprecation {
  message: string;
  hint: string;
}

/** The deprecated words in a profile, or in a source's settings, as they are written. */
export function deprecationsIn(value: unknown, place: DeprecatedWord['in'], words = DEPRECATED_WORDS): Deprecation[] {
  const where = place === 'profile' ? 'profile' : 'settings';
  return words
    .filter((word) => word.in === place)
    .flatMap(({ path, instead }) =>
      pathsTo(value, path, '').map((found) => ({
        message: `${found} in the ${where} ${instead === null ? 'has no effect any more' : 'is deprecated; it still works'}`,
        hint: instead === null ? 'remove it' : `write ${instead} in its place`,
      })),
    );
}

/** Dotted paths. */
function pathsTo(value: unknown, [key, ...rest]: readonly string[], above: string): string[] {
  if (key === undefined) return [above];
  if (typeof value !== 'object' || value === null) return [];
  const entries = Object.entries(value).filter(([name]) => key === '*' || name === key);
  return entries.flatMap(([name, part]) => pathsTo(part, rest, above === '' ? name : `${above}.${name}`));
}
