import { pageSize } from './listing.ts';
import type { Outcome } from './story.ts';

const MOST_SHOWN = 8;
const LOG_SHOWN = 400;

/** A seed's story as text: what the service does, what the profile says, what happened, and what came of it. */
export function accountOf(outcome: Outcome, isWhole: boolean): string {
  const { seed, database, behaviour, written, runs, broken, log } = outcome;
  const lines = [
    `SEED=${seed} on ${database}; to play it again: SEED=${seed} SEEDS=1 with any-service.soak.ts`,
    `service: ${JSON.stringify(behaviour)}`,
    `profile: ${JSON.stringify(written.resource)}; wrong in it: ${written.wrong ?? 'nothing'}`,
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

/** How broken promises are counted: which one it was, and in what the copy was wrong. */
export function classesOf({ broken }: Outcome): string[] {
  const names = broken.flatMap(({ promise, differences }) => differences.map(({ kind }) => `${promise}: ${kind}`));
  return [...new Set(names)];
}

/**
 * What the last walk of a seed cost: nothing moved in it. Null where it did not walk all or not to the end, or took
 * longer than the overlap: then it asks for changes as well.
 */
export function costOf({
  behaviour,
  written,
  runs,
  records,
  broken,
}: Outcome): { needed: number; asked: number; item: number } | null {
  const last = runs.at(-1);
  if (last === undefined || last.mode !== 'full' || !['ok', 'partial'].includes(last.status)) return null;
  const tookMs = (last.listing + last.item) * behaviour.clock.answerMs;
  if (broken.some(({ run }) => run === runs.length) || tookMs > written.overlapMs) return null;
  const param = written.resource.page['size_param'] === undefined ? `?limit=${written.size}` : '';
  const size = pageSize(behaviour, new URL(`http://service/${param}`));
  return { needed: Math.max(1, Math.ceil(records / size)), asked: last.listing, item: last.item };
}
