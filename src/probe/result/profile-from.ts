import { SyncError } from '../../model/errors.ts';
import { profileSchema, type Profile } from '../../source/profile.ts';
import type { Finding } from '../finding.ts';

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
const RESOURCE_ORDER = [
  'path',
  'query',
  'records',
  'unwrap',
  'id',
  'updated',
  'times',
  'incremental',
  'page',
  'item',
  'item_record',
  'gone',
  'deleted',
];

/**
 * The profile that the findings make. A field that the grammar does not know, or not with this value, is left out and
 * told as lost, so that the profile can always be loaded; so is a resource that cannot be read without it.
 */
export function profileFrom(findings: readonly Finding[]): FittedProfile {
  const names = [...new Set(findings.map(({ path }) => path[1] ?? ''))];
  let kept = findings.toSorted((a, b) => rankOf(a, names) - rankOf(b, names));
  const lost: Finding[] = [];
  for (;;) {
    const fields = fieldsOf(kept);
    const parsed = profileSchema.safeParse(fields);
    if (parsed.success) return { fields, profile: parsed.data, findings: kept, lost };
    const refused = parsed.error.issues.flatMap((issue) => refusedPaths(issue, kept));
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

interface Issue {
  code?: string;
  path: readonly PropertyKey[];
  keys?: readonly string[];
}

/** What to leave out: the unknown keys, or the field; what it is a part of where nothing was found about it. */
function refusedPaths({ code, path, keys }: Issue, findings: readonly Finding[]): string[][] {
  const at = path.map(String);
  if (code === 'unrecognized_keys') return (keys ?? []).map((key) => wholeOf([...at, key]));
  for (let length = at.length; length > 0; length -= 1) {
    const part = at.slice(0, length);
    if (findings.some((finding) => isWithin(finding.path, part))) return [wholeOf(part)];
  }
  return [];
}

/** Sections that mean something else with a part of them left out. */
const WHOLE: ReadonlySet<string> = new Set(['incremental', 'deleted', 'gone']);

/** The path, or the section that it is a part of. Without its way from page to page nothing of a listing can be read. */
function wholeOf(path: string[]): string[] {
  const [, , section = '', field = ''] = path;
  if (WHOLE.has(section)) return path.slice(0, 3);
  return section === 'page' && field !== '' && !SPARE.has(field) ? path.slice(0, 2) : path;
}

/** Fields of a page section without which a walk fails rather than going wrong. */
const SPARE: ReadonlySet<string> = new Set(['end', 'absent_is_end', 'total', 'pages', 'has_more']);

/** True for a finding about the field, a part of it, or a whole value that it stands in. */
function isWithin(path: readonly string[], refused: readonly string[]): boolean {
  const shared = Math.min(path.length, refused.length);
  return path.slice(0, shared).every((key, at) => key === refused[at]);
}

function rankOf({ path: [first = '', second = '', third = ''] }: Finding, names: readonly string[]): number {
  const within = first === 'resources' ? names.indexOf(second) * 100 + RESOURCE_ORDER.indexOf(third) : 0;
  return ORDER.indexOf(first) * 100_000 + within;
}

function fieldsOf(findings: readonly Finding[]): Fields {
  const fields: Fields = {};
  for (const { path, value } of findings) setAt(fields, path, value);
  return fields;
}

function setAt(fields: Fields, path: readonly string[], value: unknown): void {
  const [key = '', ...rest] = path;
  if (rest.length === 0) {
    fields[key] = value;
    return;
  }
  const below = fields[key];
  const next: Fields = isFields(below) ? below : {};
  fields[key] = next;
  setAt(next, rest, value);
}

function isFields(value: unknown): value is Fields {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
