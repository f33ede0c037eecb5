import { describeDialect, DIMENSIONS, isUnstable, type Dialect } from './dialect.ts';
import type { Outcome } from './story.ts';

const MOST_SHOWN = 8;
const LOG_SHOWN = 400;

/** A seed's story as text: what the service does, what the profile says, what happened, and what came of it. */
export function accountOf(outcome: Outcome, isWhole: boolean): string {
  const { seed, database, dialect, profile, runs, broken, log } = outcome;
  const lines = [
    `SEED=${seed} on ${database}; to play it again: SEED=${seed} SEEDS=1 with any-dialect.soak.ts`,
    `service: ${describeDialect(dialect)}`,
    `profile: ${JSON.stringify(profile)}`,
    ...runs.map(
      ({ command, status, mode, said, listing, item, moves }, at) =>
        `run ${at + 1}: ${command} (${mode}) ${status}; ${listing} pages and ${item} records asked for, ${moves} changes meanwhile; ${said.join(' | ') || 'nothing said'}`,
    ),
  ];
  for (const { promise, differences, run } of broken) {
    lines.push(`BROKEN after run ${run}: ${promise}; ${differences.length} differences`);
    lines.push(...differences.slice(0, MOST_SHOWN).map(({ kind, text }) => `  ${kind}: ${text.slice(0, 600)}`));
  }
  return [...lines, ...(isWhole ? log.slice(-LOG_SHOWN) : [])].join('\n');
}

/** Throws the story where a promise was broken. */
export function requireKept(outcome: Outcome): void {
  if (outcome.broken.length > 0) throw new Error(accountOf(outcome, false));
}

/** What a service came to in the end: `ok`, or why not. */
export function endOf(outcome: Outcome): string {
  const last = outcome.runs.at(-1);
  return [last?.status ?? 'none', ...reasonsOf(outcome)].join(' ');
}

/** True where the last run was an `ok`, or said only what the service itself leaves open. */
export function isExcused(outcome: Outcome): boolean {
  const { dialect, runs, isEmpty } = outcome;
  const left = DIMENSIONS.flatMap((dimension) => dialect[dimension].doubts ?? []);
  const allowed = new Set([...left, ...oddDoubts(dialect), ...(isEmpty ? OF_NOTHING : [])]);
  const status = runs.at(-1)?.status;
  return status === 'ok' || (status === 'partial' && reasonsOf(outcome).every((code) => allowed.has(code)));
}

const MISSING = ['total_not_reached', 'listing_moved', 'deletes_unconfirmed', 'deletes_held'];

/** Codes of warnings that stay as long as the service behaves so. */
function oddDoubts({ odd, order, refused, envelope, filter }: Dialect): readonly string[] {
  const countsMore = odd.claims.some(
    ({ at, unlisted, isIgnored }) =>
      !isIgnored && unlisted > 0 && (at.startsWith('header:') || envelope.isBare !== true),
  );
  const isShuffled = isUnstable(odd) && (order.by !== 'id' || filter.isNewestFirst === true);
  return [...(countsMore || isShuffled ? MISSING : []), ...(refused === null ? [] : ['listing_unread'])];
}

/** Without a single record nothing about records can be proved. */
const OF_NOTHING = ['empty_listing', 'deletes_unconfirmed', 'deletes_held', 'older_listed'];
/** They stand in runs that are `ok` as well. */
const NOTES: ReadonlySet<string> = new Set(['page_size_differs', 'listing_empty']);

/** Why the last run was not `ok`. */
function reasonsOf({ runs }: Outcome): string[] {
  const last = runs.at(-1);
  if (last === undefined || last.status === 'ok') return [];
  return last.said.map((text) => text.split(':', 1)[0] ?? text).filter((code) => !NOTES.has(code));
}
