import { Document, isCollection, isMap, isNode, isPair, isScalar, type Node } from 'yaml';
import { escapePlaceholders } from '../config/file/interpolate.ts';
import { type Profile, profileSchema } from '../config/profile/profile.ts';
import { snippet } from '../http/body/safe-text.ts';
import type { Clock } from '../model/clock.ts';
import { SyncError } from '../model/errors.ts';
import type { JsonObject } from '../model/json.ts';
import { fieldAt, type UnwrapRule } from '../rows/records/as-record.ts';
import type { Answer, Asker, QueryParams } from './asker.ts';

type Fields = Record<string, unknown>;

/** A profile that can be loaded, and what speaks for each of its lines. */
export interface FittedProfile {
  /** As a file has it. */
  fields: Fields;
  /** As the program reads it. */
  profile: Profile;
  findings: readonly Finding[];
  /** Findings that a profile has no field for: the service does it, and the copy does without. */
  lost: readonly Finding[];
}

/** Fields of a profile and of a resource in the order in which they are written. */
const ORDER = ['version_prefix', 'auth', 'identity', 'resources'];
const RESOURCE_ORDER =
  'path query records unwrap id updated times incremental page item item_record gone deleted'.split(' ');

/**
 * The profile that the findings make. A field that the grammar does not know, or not with this value, is left out and
 * reported as lost, so that the profile can always be loaded; so is a resource that cannot be read without it.
 */
export function profileFrom(findings: readonly Finding[]): FittedProfile {
  const names = [...new Set(findings.map(({ path }) => path[1] ?? ''))];
  let kept = findings.toSorted((a, b) => rankOf(a, names) - rankOf(b, names));
  const lost: Finding[] = [];
  for (;;) {
    const fields = fieldsOf(kept);
    const parsed = profileSchema.safeParse(fields);
    if (parsed.success) return { fields, profile: parsed.data, findings: kept, lost };
    const refused = parsed.error.issues.flatMap((issue) => refusedBy(issue, kept));
    const next = kept.filter((finding) => !refused.some((path) => isWithin(finding.path, path)));
    lost.push(...kept.filter((finding) => !next.includes(finding)));
    if (!next.some(({ path }) => path[0] === 'resources')) throw unsayable(lost);
    kept = next;
  }
}

function unsayable(lost: readonly Finding[]): SyncError {
  const example = lost.find(({ path }) => path.includes('page')) ?? lost[0];
  const value = `${example?.path.join('.')} would be ${JSON.stringify(example?.value)}`;
  return new SyncError('probe_failed', `a profile cannot say how this service is read: ${value}`, {
    recovery: 'stop',
    hint: 'see the grammar of profiles for what comes near, and try it with `content-sync check`',
  });
}

/** Fields of a page section without which a scan fails rather than going wrong. */
const SPARE: ReadonlySet<string> = new Set(['end', 'absent_is_end', 'total', 'pages', 'has_more']);

/**
 * What to leave out for an issue: the section, because it means something else with a part of it left out, or one of its
 * `SPARE` fields; the whole resource, where nothing was found about the section that it lacks.
 */
function refusedBy({ path, keys = [] }: SchemaIssue, findings: readonly Finding[]): string[][] {
  const at = path.map(String);
  return (keys.length === 0 ? [at] : keys.map((key) => [...at, key])).map((each) => {
    const length = each[2] === 'page' && SPARE.has(each[3] ?? '') ? 4 : each[0] === 'resources' ? 3 : 1;
    const part = each.slice(0, length);
    return findings.some((finding) => isWithin(finding.path, part)) ? part : each.slice(0, length - 1);
  });
}

interface SchemaIssue {
  path: readonly PropertyKey[];
  keys?: readonly string[];
}

/** True for a finding about the field, or a part of it. */
function isWithin(path: readonly string[], refused: readonly string[]): boolean {
  return refused.every((key, at) => path[at] === key);
}

function rankOf({ path: [first = '', second = '', third = ''] }: Finding, names: readonly string[]): number {
  const within = first === 'resources' ? names.indexOf(second) * 100 + RESOURCE_ORDER.indexOf(third) : 0;
  return ORDER.indexOf(first) * 100_000 + within;
}

function fieldsOf(findings: readonly Finding[]): Fields {
  const fields: Fields = {};
  for (const { path, value } of findings) setAt(fields, path, value);
  // A guess that nothing is there, such as no filter, is not assumed by any run.
  const guesses = findings.filter(({ path, value, proved }) => path[0] === 'resources' && !proved && value !== null);
  for (const [name = '', found] of Map.groupBy(guesses, ({ path }) => path[1])) {
    setAt(
      fields,
      ['resources', name, 'unverified'],
      found.map(({ path }) => path.slice(2).join('.')),
    );
  }
  return fields;
}

function setAt(fields: Fields, path: readonly string[], value: unknown): void {
  const [key = '', ...rest] = path;
  if (rest.length === 0) {
    fields[key] = value;
    return;
  }
  const below = fields[key];
  const isSection = typeof below === 'object' && below !== null && !Array.isArray(below);
  const next: Fields = isSection ? Object.fromEntries(Object.entries(below)) : {};
  fields[key] = next;
  setAt(next, rest, value);
}

/** Max characters of evidence per line. */
const MOST_EVIDENCE = 220;

/** The profile as a file, with the evidence as a comment on each line, or `not proved`. */
export function toYaml(
  result: Omit<FittedProfile, 'profile'> & { baseUrl: string; requests: number; notes: readonly string[] },
): string {
  const document = new Document(escapePlaceholders(result.fields));
  let before = '';
  for (const finding of result.findings) {
    const text = evidenceOf(finding);
    remark(document, finding, text === before ? (finding.proved ? 'likewise' : 'not proved, likewise') : text);
    before = text;
  }
  document.commentBefore = headOf(result);
  return document.toString({ lineWidth: 0, flowCollectionPadding: true });
}

function headOf({ baseUrl, requests, notes, lost }: Parameters<typeof toYaml>[0]): string {
  const losses = lost.map((finding) => {
    const value = snippet(JSON.stringify(finding.value), 80);
    return `not proved: ${finding.path.join('.')} would be ${value}, which a profile cannot say (${evidenceOf(finding)})`;
  });
  const lines = [`Found by content-sync probe at ${baseUrl} with ${requests} requests.`, ...notes, ...losses];
  return lines.map((line) => ` ${snippet(line, 400)}`).join('\n');
}

function evidenceOf({ proved, evidence }: Finding): string {
  const text = snippet(evidence, MOST_EVIDENCE);
  return proved ? text : `not proved: ${text}`;
}

/** Adds a comment to the line of the finding, or above a section of several lines. */
function remark(document: Document, { path }: Finding, text: string): void {
  const node: unknown = document.getIn(path, true);
  if (!isNode(node)) return;
  if (isScalar(node) || isEmptyOrShort(node)) {
    node.comment = ` ${text}`;
    return;
  }
  const parent: unknown = document.getIn(path.slice(0, -1), true);
  const pair = isMap(parent)
    ? parent.items.find((each) => isPair(each) && String(each.key) === path.at(-1))
    : undefined;
  if (pair !== undefined && isNode(pair.key)) pair.key.commentBefore = ` ${text}`;
}

/** Writes small maps and lists of plain values on one line. */
function isEmptyOrShort(node: Node): boolean {
  if (!isCollection(node)) return false;
  const isShort = JSON.stringify(node.toJSON()).length < 70;
  if (isShort) node.flow = true;
  return isShort;
}

/** One line of a profile, and what speaks for it. */
export interface Finding {
  /** Keys that lead to the field: `['resources', 'posts', 'id']`. */
  path: readonly string[];
  /** As the profile writes it. */
  value: unknown;
  /** False if the service did not show it: then it is the safest guess. */
  proved: boolean;
  /** What was asked and what came, as one line without secrets. */
  evidence: string;
}

export type Findings = ReturnType<typeof newFindings>;

/**
 * Collects the findings about one part of a profile, whose paths begin with `at`: `proved` as the service showed, or
 * `guessed`, with the evidence or why it could not be shown. A later finding about a field replaces the one before.
 */
export function newFindings(at: readonly string[] = []) {
  const byPath = new Map<string, Finding>();
  const add = (path: readonly string[], value: unknown, proved: boolean, evidence: string): void => {
    const whole = [...at, ...path];
    byPath.set(JSON.stringify(whole), { path: whole, value, proved, evidence });
  };
  return {
    get all(): readonly Finding[] {
      return [...byPath.values()];
    },
    proved: (path: readonly string[], value: unknown, evidence: string): void => add(path, value, true, evidence),
    guessed: (path: readonly string[], value: unknown, evidence: string): void => add(path, value, false, evidence),
  };
}

/** How this service pages, as a resource before has shown it. */
interface PageConvention {
  /** The page section of the profile, without what depends on the resource. */
  page: Record<string, unknown>;
  /** Requested records per page. */
  size: number;
}

/** What one resource showed is tried first with the next. */
export interface Conventions {
  /**
   * What the service does with a parameter that it does not know; `filters`: takes it for a filter by equality, so that
   * nothing is listed. Null while that is not known.
   */
  unknown: 'ignored' | 'refused' | 'filters' | null;
  /** Names of query parameters that a document, an index or a link of the service names. */
  parameters: Set<string>;
  page: PageConvention | null;
  /** Parameters, as `filter.ts` writes them. */
  filter: { form: QueryParams; format: string } | 'none' | null;
  /** The fields with the time of change. */
  updated: readonly string[];
  /** The path of one record after that of the listing, the field by which it is found, and the path of the record in the response. */
  item: { suffix: string; id: string; record: string } | null;
  /** Statuses for a record that is not there. */
  gone: number | null;
  /** Parameters that list what is not published as well; null while nothing was tried. */
  view: QueryParams | 'none' | null;
}

export interface Stage {
  asker: Asker;
  clock: Clock;
  conventions: Conventions;
  /** What the user should know besides the profile, as sentences. */
  notes: string[];
}

/** A listing that is being examined. */
export interface Subject extends Stage {
  /** The name of the resource. */
  name: string;
  /** Below the base URL. */
  path: string;
  /** Further parameters of each request. */
  query: QueryParams;
  /** The first page as it comes without a parameter. */
  first: Answer;
  /** The path of the records. */
  at: string;
  /** Objects in the records that wrap a plain value. */
  unwrap: readonly UnwrapRule[];
  /** Parameters of the first page alone: it is refused without them. */
  starter: QueryParams;
  /** The longest run of records from the beginning of the listing that was seen. */
  records: JsonObject[];
  /** True if these are all that there are; null while that is not known. */
  isWhole: boolean | null;
  /** All that there are by the service's word. */
  total: number | null;
  /** Parameters of the first page, so that it holds as many records as the profile requests. */
  firstPage: QueryParams;
  id: string;
  /** The field with the time of the last change, and those that replace it if it is null. */
  updated: string[];
  findings: Findings;
}

/** Identifies a record on the pages of one listing. */
export function keyOf(record: JsonObject, id: string): string {
  const value = id === '' ? undefined : fieldAt(record, id);
  return JSON.stringify(value ?? record);
}

/** True if both hold the same records in the same order. */
export function isSamePage(a: readonly JsonObject[], b: readonly JsonObject[], id: string): boolean {
  return a.length === b.length && a.every((record, at) => keyOf(record, id) === keyOf(b[at] ?? {}, id));
}
