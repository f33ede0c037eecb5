/** Fields of a profile that earlier versions had, by their path, in which a star stands for any key, and what to do without them. */
const REMOVED_FIELDS: readonly (readonly [string, string])[] = [
  ['oauth', 'write auth: { type: oauth, token_path: ..., client_auth: ... }'],
  ['rate_limit.quotas', 'take it out: the limits of the answers are followed'],
  ['resources.*.parts', 'ask for fewer fields or smaller pages, so that each record comes whole'],
  ...['window', 'start', 'until_param', 'most'].map(
    (field) =>
      [
        `resources.*.incremental.${field}`,
        'a listing that is cut off is read by page.style keyset or cursor, or by partitions',
      ] as const,
  ),
  [
    'resources.*.incremental.headers',
    'write them as headers of the resource: one with {since} is only sent for changes',
  ],
  [
    'resources.*.incremental.body',
    'name the place in `param`, such as body:filter.from, or write {since} into body of the resource',
  ],
  ['version.prefix', 'write it as version_prefix'],
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
