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

/** Fields of a profile that earlier versions had, by their path as above, and what to do without them. */
const REMOVED_FIELDS: readonly (readonly [string, string])[] = [
  ['resources.*.parts', 'ask for fewer fields or smaller pages, so that each record comes whole'],
  ...['window', 'start', 'until_param', 'most'].map(
    (field) =>
      [
        `resources.*.incremental.${field}`,
        'a listing that is cut off is read by page.style keyset or cursor, or by partitions',
      ] as const,
  ),
  ['webhooks.manage', 'set the webhook up at the service, with the address and the secret of the settings'],
];

/** What to do in place of a field that was removed; null for any other key. */
export function insteadOf(path: readonly (string | number)[]): string | null {
  const found = REMOVED_FIELDS.find(([field]) => {
    const keys = field.split('.');
    return keys.length === path.length && keys.every((key, at) => key === '*' || key === path[at]);
  });
  return found?.[1] ?? null;
}

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
