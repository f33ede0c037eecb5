// Writes the message of an alert. If one cause concerns many resources, such as a service that is down, the message names
// it once with all of them. The wording of each problem is in `status/attention.ts`.
import { ALERT_KINDS } from '../../config/alerts-schema.ts';
import type { SentAlert } from '../../database/state/server-state.ts';
import { formatCount, formatDuration } from '../../observe/format-values.ts';
import { ALERT_TITLES } from '../status/attention.ts';
import type { Condition } from './plan-alerts.ts';

type ReportedProblem = Omit<Condition, 'alert' | 'count'>;

/** A message; a POST sends it as JSON, so its fields are public. Times are ISO text in UTC. */
export interface AlertMessage {
  status: 'firing' | 'over' | 'test';
  /** One line. */
  title: string;
  /** Further lines. */
  text: string;
  /** How many problems it reports; `things` has the first of them. */
  count: number;
  kinds: string[];
  sources: string[];
  /** When the first problem began. */
  since: string;
  /** When the message was written. */
  at: string;
  /** The address of the status page; null if it is not known. */
  url: string | null;
  things: (Omit<ReportedProblem, 'since' | 'cause'> & { since: string })[];
}

interface MessageContext {
  now: number;
  publicUrl: string | null;
  scrub: (text: string) => string;
}

const MAX_GROUPS = 20;
const MAX_SOURCES = 8;
const MAX_TITLE_SOURCES = 3;
const MAX_RESOURCES = 5;
const MAX_THINGS = 100;
const MAX_LINE_CHARS = 500;

/** Reports problems that have begun, or that last. `begun` must not be empty. */
export function begunMessage(begun: readonly Condition[], context: MessageContext): AlertMessage {
  return toMessage('firing', begun, context);
}

/** Reports problems that have ended. `over` must not be empty. */
export function overMessage(over: readonly SentAlert[], context: MessageContext): AlertMessage {
  const problems = over.map(({ source, alert, what, since }): ReportedProblem => {
    // `alert` is the kind, followed by the resource if it has one (see `Condition`).
    const [storedKind, resource = null] = alert.split(' ');
    const kind = ALERT_KINDS.find((each) => each === storedKind) ?? 'failed';
    return { kind, source, resource, since, what, next: null, command: null, cause: '' };
  });
  return toMessage('over', problems, context);
}

export function testMessage(channel: string, now: number, url: string | null): AlertMessage {
  const at = new Date(now).toISOString();
  const title = `content-sync: test of the alerts to ${channel}`;
  const text = 'This is a test (`content-sync config alerts test`). Nothing is wrong, and there is nothing to do.';
  return { status: 'test', title, text, count: 0, kinds: [], sources: [], since: at, at, url, things: [] };
}

function toMessage(status: 'firing' | 'over', all: readonly ReportedProblem[], context: MessageContext): AlertMessage {
  const { now, publicUrl, scrub } = context;
  const toLine = (text: string): string => {
    const clean = scrub(text).replaceAll(/\s+/g, ' ');
    return clean.length > MAX_LINE_CHARS ? `${clean.slice(0, MAX_LINE_CHARS - 1)}…` : clean;
  };
  const problems = all
    .map(({ what, next, command, ...rest }): ReportedProblem => {
      return { ...rest, what: toLine(what), next: next && toLine(next), command: command && scrub(command) };
    })
    .toSorted((a, b) => ALERT_KINDS.indexOf(a.kind) - ALERT_KINDS.indexOf(b.kind));
  const groups = [...Map.groupBy(problems, ({ kind, cause }) => `${kind} ${cause}`).values()];
  const kinds = [...new Set(problems.map(({ kind }) => kind))];
  const sources = [...new Set(problems.map(({ source }) => source))];
  const anchor = sources.length === 1 ? `#${encodeURIComponent(sources.join(''))}` : '';
  const url = publicUrl === null ? null : `${publicUrl}${anchor}`;
  const more = groups.length > MAX_GROUPS ? [`and ${formatCount(groups.length - MAX_GROUPS, 'further kind')}`] : [];
  const names = sources.length > MAX_TITLE_SOURCES ? formatCount(sources.length, 'source') : formatNames(problems);
  const titles = kinds.map((kind) => ALERT_TITLES[kind]).join(', ');
  const paragraphs = groups.slice(0, MAX_GROUPS).map((group) => formatGroup(status, group, now));
  const things = problems
    .slice(0, MAX_THINGS)
    .map(({ cause: _cause, since, ...thing }) => Object.assign(thing, { since: new Date(since).toISOString() }));
  return {
    status,
    title: `content-sync: ${status === 'over' ? 'over: ' : ''}${titles}: ${names}`,
    text: [...paragraphs, ...more, ...(url === null ? [] : [url])].join('\n\n'),
    count: problems.length,
    kinds,
    sources,
    since: new Date(Math.min(...problems.map(({ since }) => since))).toISOString(),
    at: new Date(now).toISOString(),
    url,
    things,
  };
}

/** Formats `blog (content, images), shop`. */
function formatNames(problems: readonly ReportedProblem[]): string {
  const sources = [...Map.groupBy(problems, ({ source }) => source)].map(([source, ofSource]) => {
    const resources = [...new Set(ofSource.flatMap(({ resource }) => resource ?? []))];
    return resources.length === 0 ? source : `${source} (${formatList(resources, MAX_RESOURCES)})`;
  });
  return formatList(sources, MAX_SOURCES);
}

function formatList(names: readonly string[], max: number): string {
  const rest = names.length - max;
  return `${names.slice(0, max).join(', ')}${rest > 0 ? ` and ${rest} more` : ''}`;
}

/** Formats the problems of one kind and cause as a paragraph. */
function formatGroup(status: 'firing' | 'over', group: readonly ReportedProblem[], now: number): string {
  const [first] = group;
  if (first === undefined) return '';
  const { kind, what, next, command } = first;
  const began = Math.min(...group.map(({ since }) => since));
  const since = `${new Date(began).toISOString().slice(0, 16).replace('T', ' ')} UTC`;
  const head = `${ALERT_TITLES[kind].toUpperCase()}: ${formatNames(group)}`;
  if (status === 'over') {
    return `${head}\nOver. It began at ${since} and lasted ${formatDuration((now - began) / 1_000)}.`;
  }
  const isChange = kind === 'schema_change';
  const problems = isChange ? group.slice(0, MAX_GROUPS).map((each) => each.what) : [what];
  const remedy = [next && `→ ${next}`, command && `$ ${command}`].filter((line) => line !== null);
  return [head, ...problems, `${isChange ? 'at' : 'since'} ${since}`, ...remedy].join('\n');
}
