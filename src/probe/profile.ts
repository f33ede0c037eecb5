// Makes a profile of the findings, and writes it with the evidence for each line. Example: the finding that `id` of
// posts is `uuid`, "in all 100 records, no two alike", becomes the line `id: uuid # in all 100 records, no two alike`.
import { Document, isCollection, isMap, isScalar } from 'yaml';
import { escapePlaceholders } from '../config/file/interpolate.ts';
import { extendFamily } from '../config/load-profile.ts';
import { type Profile, profileSchema } from '../config/profile/profile.ts';
import { shortenText } from '../http/body/read-body.ts';
import { probeFailed } from './probe-client.ts';

/** One line of a profile, and the evidence for it. */
export interface Finding {
  /** Keys that lead to the field: `['resources', 'posts', 'id']`. */
  path: readonly string[];
  /** As the profile writes it. */
  value: unknown;
  /** False if the service did not show it: then it is the safest guess. */
  proved: boolean;
  /** What was requested and returned, as one line without secrets. */
  evidence: string;
}

/** Fields of a profile and of a resource, in the order in which they are written. */
const FIELD_ORDER =
  'version_prefix auth identity path query headers records empty unwrap id updated times incremental page item item_record gone deleted'.split(
    ' ',
  );

export type Findings = ReturnType<typeof newFindings>;

/**
 * Collects the findings about one part of a profile, whose paths begin with `prefix`: `proved` as the service showed, or
 * `guessed`, with the evidence or why it could not be shown. A later finding about a field replaces the one before.
 */
export function newFindings(prefix: readonly string[] = []) {
  const byPath = new Map<string, Finding>();
  const add = (proved: boolean) => (path: readonly string[], value: unknown, evidence: string) => {
    byPath.set(JSON.stringify(path), { path: [...prefix, ...path], value, proved, evidence });
  };
  const rank = ({ path }: Finding): number => FIELD_ORDER.indexOf(path[prefix.length] ?? '');
  return {
    get all(): readonly Finding[] {
      return [...byPath.values()].toSorted((a, b) => rank(a) - rank(b));
    },
    proved: add(true),
    guessed: add(false),
  };
}

type Fields = Record<string, unknown>;

/** A profile that can be loaded, and the evidence for each of its lines. */
export interface FittedProfile {
  /** As a file has it. */
  fields: Fields;
  /** As the program reads it. */
  profile: Profile;
  findings: readonly Finding[];
  /** Findings that a profile has no field for: the service does it, and the copy does without. */
  lost: readonly Finding[];
}

/**
 * The profile that the findings make. A part that the grammar does not know, or not with this value, is left out and
 * reported as lost, so that the profile can always be loaded: an end of a page section, else a whole section, else the
 * resource.
 */
export function profileFrom(findings: readonly Finding[]): FittedProfile {
  let rest = findings;
  for (;;) {
    const fields = toFields(rest);
    const parsed = profileSchema.safeParse(fields);
    const lost = findings.filter((finding) => !rest.includes(finding));
    if (parsed.success) return { fields, profile: parsed.data, findings: rest, lost };
    const tried = rest;
    const refused = parsed.error.issues.map(({ path }) => {
      const isOptional = /^(?:end|absent_is_end|total|pages|has_more)$/.test(String(path[3]));
      const depths = [isOptional ? 4 : 3, 3, 2, 1];
      const parts = depths.map((depth) => path.slice(0, depth).map(String));
      return parts.find((part) => tried.some((finding) => isWithin(finding, part))) ?? [];
    });
    rest = tried.filter((finding) => !refused.some((part) => isWithin(finding, part)));
    if (rest.some(({ path }) => path[0] === 'resources')) continue;
    const example = findings.find((finding) => !rest.includes(finding));
    const value = `${example?.path.join('.')} would be ${JSON.stringify(example?.value)}`;
    const hint = 'see the grammar of profiles for what comes near, and try it with `content-sync check`';
    throw probeFailed(`a profile cannot say how this service is read: ${value}`, hint);
  }
}

/** True for a finding about the part, or about a field of it. */
function isWithin({ path }: Finding, part: readonly string[]): boolean {
  return part.every((key, index) => path[index] === key);
}

function toFields(findings: readonly Finding[]): Fields {
  const document = new Document({});
  for (const { path, value } of findings) document.setIn(path, value);
  // A guess that nothing is there, such as no filter, is not assumed by any run.
  const guesses = findings.filter(({ path, value, proved }) => path[0] === 'resources' && !proved && value !== null);
  for (const [name = '', guessed] of Map.groupBy(guesses, ({ path }) => path[1])) {
    document.setIn(
      ['resources', name, 'unverified'],
      guessed.map(({ path }) => path.slice(2).join('.')),
    );
  }
  const fields: Fields = document.toJS();
  return fields;
}

const MAX_EVIDENCE = 220;

type Written = FittedProfile & { baseUrl: string; requests: number; notes: readonly string[] };

/**
 * The profile as a file, with the evidence as a comment on each line, or `not proved`. A profile that extends that of a
 * family differs little from it: then each resource is one line below its evidence.
 */
export function toYaml({ fields, profile, findings, lost, baseUrl, requests, notes }: Written): string {
  const shorter = extendFamily(fields, profile);
  const document = new Document(escapePlaceholders(shorter));
  let before = '';
  // What a family of services says has no line, and so no evidence.
  for (const { path, proved, evidence } of findings.filter((finding) => document.hasIn(finding.path))) {
    const text = formatEvidence(evidence, proved);
    const shown = text === before ? `${proved ? '' : 'not proved, '}likewise` : text;
    const isInLine = 'extends' in shorter && path[0] === 'resources';
    if (isInLine) addComment(document, path.slice(0, 2), `${path.slice(2).join('.')}: ${shown}`, true);
    else addComment(document, path, shown);
    before = text;
  }
  const losses = lost.map(({ path, value, proved, evidence }) => {
    const shown = shortenText(JSON.stringify(value), 80);
    return `not proved: ${path.join('.')} would be ${shown}, which a profile cannot say (${formatEvidence(evidence, proved)})`;
  });
  const head = [`Found by content-sync config probe at ${baseUrl} with ${requests} requests.`, ...notes, ...losses];
  document.commentBefore = head.map((line) => ` ${shortenText(line, 400)}`).join('\n');
  return document.toString({ lineWidth: 0, flowCollectionPadding: true });
}

function formatEvidence(evidence: string, proved: boolean): string {
  return `${proved ? '' : 'not proved: '}${shortenText(evidence, MAX_EVIDENCE)}`;
}

/** Adds a comment to the line of a field, or above one of several lines. A small section, or one that `isLine`, is a line. */
function addComment(document: Document, path: readonly string[], text: string, isLine = false): void {
  const node: unknown = document.getIn(path, true);
  if (isCollection(node)) node.flow = isLine || JSON.stringify(node.toJSON()).length < 70;
  if (!isLine && (isScalar(node) || (isCollection(node) && node.flow === true))) {
    node.comment = ` ${text}`;
    return;
  }
  const parent: unknown = document.getIn(path.slice(0, -1), true);
  const pair = isMap(parent) ? parent.items.find(({ key }) => String(key) === path.at(-1)) : undefined;
  if (!isScalar(pair?.key)) return;
  const { commentBefore } = pair.key;
  pair.key.commentBefore = `${typeof commentBefore === 'string' ? `${commentBefore}\n` : ''} ${text}`;
}
