import { agoText, countOf } from '../../observe/figures.ts';
import { isOverdue, type Attention, type Severity } from './attention.ts';
import type { ResourceStatus, StatusSnapshot } from './snapshot.ts';

/** How everything stands. `quiet`: nothing is wrong, and there is nothing to be proud of yet. */
export interface Headline {
  tone: Severity | 'fine' | 'quiet';
  text: string;
}

/** How everything stands, in one sentence, and how bad the worst of it is. */
export function headlineOf(snapshot: StatusSnapshot, found: readonly Attention[]): Headline {
  const resources = snapshot.sources.flatMap((source) => source.resources);
  const [worst] = found;
  if (worst !== undefined) {
    const things = countOf(found.length, 'thing needs attention', 'things need attention');
    return { tone: worst.severity, text: `${things}; ${freshnessText(worst, resources, snapshot.at)}` };
  }
  const successes = resources.map((status) => status.last_success_at);
  if (snapshot.sources.length === 0) return { tone: 'quiet', text: 'There are no sources' };
  if (successes.includes(null)) return { tone: 'quiet', text: firstCopyText(resources) };
  const oldest = Math.min(...successes.filter((at) => at !== null));
  const age = resources.length === 0 ? '' : `, the oldest synced ${agoText(oldest, snapshot.at)}`;
  return { tone: 'fine', text: `Everything is fresh: ${countOf(resources.length, 'resource')}${age}` };
}

function freshnessText(worst: Attention, resources: readonly ResourceStatus[], now: number): string {
  const overdue = resources.filter((status) => isOverdue(status, now)).length;
  if (overdue > 0) return `${overdue} of ${countOf(resources.length, 'resource')} overdue`;
  return worst.severity === 'down' ? 'how fresh the data is cannot be told' : 'no resource is overdue';
}

function firstCopyText(resources: readonly ResourceStatus[]): string {
  const done = resources.filter((status) => status.last_success_at !== null).length;
  const running = resources.some((status) => status.running !== null);
  const what = running ? 'The first copy is being made' : 'The first copy has yet to be made';
  return `${what}: ${done} of ${countOf(resources.length, 'resource')} done`;
}
