import { countOf, durationText } from '../../observe/figures.ts';
import { ALERT_KINDS, type AlertKind } from '../../settings/alerts-schema.ts';
import type { Condition } from './conditions.ts';
import type { ToldOf } from './plan-telling.ts';

/** One thing that a message tells of; times as ISO text in UTC. */
export interface Told {
  kind: string;
  source: string;
  resource: string | null;
  since: string;
  what: string;
  next: string | null;
  command: string | null;
}

/** A message as every channel writes it in its own way. */
export interface Message {
  status: 'firing' | 'over' | 'test';
  /** One line. */
  title: string;
  /** The rest, in lines. */
  text: string;
  /** How many things it tells of; `things` holds the first of them. */
  count: number;
  kinds: string[];
  sources: string[];
  /** When the first of them began. */
  since: string;
  at: string;
  /** Of the page; null if nobody has said where people see it. */
  url: string | null;
  things: Told[];
}

export interface MessagePlace {
  now: number;
  /** The page's address; null if it is not known. */
  publicUrl: string | null;
  /** Takes secrets out of a text. */
  scrub: (text: string) => string;
}

/** How a message names a kind. */
const NAMES: Readonly<Record<AlertKind, string>> = {
  failed: 'failed',
  overdue: 'overdue',
  partial: 'partial',
  held_deletes: 'deletes held back',
  dead_deliveries: 'webhook deliveries given up',
  rejects: 'records set aside',
  files: 'files not fetched',
  deprecation: 'API about to end',
  schema_change: 'tables changed',
};

const MOST_GROUPS = 20;
const MOST_SOURCES = 8;
const MOST_RESOURCES = 5;
const MOST_THINGS = 100;
const LONGEST_LINE = 500;

type Thing = Pick<Condition, 'kind' | 'source' | 'resource' | 'since' | 'what' | 'next' | 'command' | 'cause'>;

/** Says what has begun, or goes on. `begun` must not be empty. */
export function begunMessage(begun: readonly Condition[], place: MessagePlace): Message {
  return messageOf('firing', begun, place);
}

/** Says what is over. `over` must not be empty. */
export function overMessage(over: readonly ToldOf[], place: MessagePlace): Message {
  const things = over.map(({ source, alert, what, since }): Thing => {
    const [named = '', resource = null] = alert.split(' ');
    const kind = ALERT_KINDS.find((each) => each === named) ?? 'failed';
    return { kind, source, resource, since, what, next: null, command: null, cause: '' };
  });
  return messageOf('over', things, place);
}

/** The message that shows that a channel works. */
export function testMessage(channel: string, place: MessagePlace): Message {
  const at = isoText(place.now);
  const title = `content-sync: test of the alerts to ${channel}`;
  const text = 'Somebody called `content-sync alerts test`. Nothing is wrong, and there is nothing to do.';
  const rest = { count: 0, kinds: [], sources: [], since: at, at, url: place.publicUrl, things: [] };
  return { status: 'test', title, text, ...rest };
}

function messageOf(status: 'firing' | 'over', all: readonly Thing[], place: MessagePlace): Message {
  const { now, publicUrl, scrub } = place;
  const things = all.map((each) => scrubbed(each, scrub));
  const groups = groupsOf(things);
  const url = publicUrl === null ? null : linkTo(publicUrl, things);
  const since = Math.min(...things.map((each) => each.since));
  const lines = groups.slice(0, MOST_GROUPS).map((group) => groupText(status, group, now));
  const more = groups.length > MOST_GROUPS ? [`and ${countOf(groups.length - MOST_GROUPS, 'further kind')}`] : [];
  return {
    status,
    title: titleOf(status, groups, things),
    text: [...lines, ...more, ...(url === null ? [] : [url])].join('\n\n'),
    count: things.length,
    kinds: [...new Set(groups.map(([first]) => first.kind))],
    sources: [...new Set(things.map(({ source }) => source))],
    since: isoText(since),
    at: isoText(now),
    url,
    things: things.slice(0, MOST_THINGS).map(({ kind, source, resource, since: began, what, next, command }) => {
      return { kind, source, resource, since: isoText(began), what, next, command };
    }),
  };
}

function scrubbed(thing: Thing, scrub: MessagePlace['scrub']): Thing {
  const line = (text: string): string => {
    const clean = scrub(text).replaceAll(/\s+/g, ' ');
    return clean.length > LONGEST_LINE ? `${clean.slice(0, LONGEST_LINE - 1)}…` : clean;
  };
  const { what, next, command } = thing;
  const texts = { what: line(what), next: next === null ? null : line(next), command: command && scrub(command) };
  return { ...thing, ...texts };
}

type Group = readonly [Thing, ...Thing[]];

/** Things of one kind and cause together, in the order of the kinds. */
function groupsOf(things: readonly Thing[]): Group[] {
  const groups = [...Map.groupBy(things, ({ kind, cause }) => `${kind} ${cause}`).values()];
  const order = (group: readonly Thing[]): number => ALERT_KINDS.findIndex((kind) => kind === group[0]?.kind);
  return groups
    .toSorted((a, b) => order(a) - order(b))
    .flatMap(([first, ...rest]): Group[] => (first === undefined ? [] : [[first, ...rest]]));
}

function titleOf(status: 'firing' | 'over', groups: readonly Group[], things: readonly Thing[]): string {
  const start = status === 'over' ? 'content-sync: over: ' : 'content-sync: ';
  const kinds = [...new Set(groups.map(([{ kind }]) => NAMES[kind]))].join(', ');
  const sources = new Set(things.map(({ source }) => source));
  if (sources.size > 3) return `${start}${kinds}: ${countOf(sources.size, 'source')}`;
  return `${start}${kinds}: ${namesOf(things)}`;
}

/** `blog (content, images), shop`. */
function namesOf(things: readonly Thing[]): string {
  const sources = [...Map.groupBy(things, ({ source }) => source)].map(([source, own]) => {
    const resources = [...new Set(own.flatMap(({ resource }) => resource ?? []))];
    return resources.length === 0 ? source : `${source} (${someOf(resources, MOST_RESOURCES)})`;
  });
  return someOf(sources, MOST_SOURCES);
}

function someOf(names: readonly string[], most: number): string {
  const rest = names.length - most;
  return rest > 0 ? `${names.slice(0, most).join(', ')} and ${rest} more` : names.join(', ');
}

function groupText(status: 'firing' | 'over', group: Group, now: number): string {
  const [{ kind, since, next, command }] = group;
  const first = Math.min(...group.map((each) => each.since));
  const head = `${NAMES[kind].toUpperCase()}: ${namesOf(group)}`;
  const lasted = durationText((now - first) / 1_000);
  if (status === 'over') return `${head}\nOver. It began at ${minuteText(first)} and lasted ${lasted}.`;
  const when = kind === 'schema_change' ? `at ${minuteText(since)}` : `since ${minuteText(first)}`;
  const said = kind === 'schema_change' ? group.map(({ what }) => what) : [group[0].what];
  const lines = [head, ...said.slice(0, MOST_GROUPS), when, ...(next === null ? [] : [`→ ${next}`])];
  return [...lines, ...(command === null ? [] : [`$ ${command}`])].join('\n');
}

/** The page, at the source if it is about one. */
function linkTo(publicUrl: string, things: readonly Thing[]): string {
  const sources = [...new Set(things.map(({ source }) => source))];
  const [only] = sources;
  return sources.length === 1 && only !== undefined ? `${publicUrl}#${encodeURIComponent(only)}` : publicUrl;
}

function isoText(at: number): string {
  return new Date(at).toISOString();
}

function minuteText(at: number): string {
  return `${isoText(at).slice(0, 16).replace('T', ' ')} UTC`;
}
