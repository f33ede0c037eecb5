import type { Network } from '../config/network.ts';
import type { Clock } from '../model/clock.ts';
import { ConfigError, SyncError } from '../model/errors.ts';
import type { JsonValue } from '../model/json.ts';
import { holdsSecret, scrub } from '../observe/scrub.ts';
import { Asker, RequestsSpent, unreachable } from './asker.ts';
import { probeId, probeItem } from './body.ts';
import { type Credential, parseForm } from './credential-forms.ts';
import { probeDeleted, probeTimes, probeView } from './fields.ts';
import { probeFilter } from './filter.ts';
import { findListings } from './listings.ts';
import { probePages } from './pages.ts';
import {
  type Conventions,
  type Finding,
  type FittedProfile,
  newFindings,
  profileFrom,
  type Stage,
  type Subject,
} from './profile.ts';

export interface ProbeOptions {
  /** Http or https; paths are asked below it. */
  baseUrl: URL;
  /** Null for a service that wants none. */
  credential: Credential | null;
  /** `bearer`, `basic`, `header:<name>` or `query:<name>`: the only form that is tried. */
  auth?: string | undefined;
  /** Listings below the base URL; looked for where there are none. */
  paths?: readonly string[] | undefined;
  /** A parsed OpenAPI document. */
  openapi?: JsonValue | undefined;
  /** Path or URL of one at the service. */
  openapiPath?: string | undefined;
  /** Requests that may be sent; 60 if absent. */
  most?: number | undefined;
  clock: Clock;
  network?: Network | undefined;
  /** Texts that must not be written: the credential is added. */
  secrets: string[];
  signal: AbortSignal;
  progress?: ((progress: ProbeProgress) => void) | undefined;
}

export interface ProbeProgress {
  /** What is being found out: `credential`, `listings`, or a resource's name. */
  about: string;
  /** Path and query of the request that is sent now, without the credential. */
  asked: string;
  /** Requests sent, this one included. */
  requests: number;
  most: number;
}

export interface ProbeResult extends FittedProfile {
  baseUrl: string;
  /** The form of the credential, as `auth` of the profile says it. */
  scheme: Readonly<Record<string, string>>;
  /** What was not tried. */
  notes: readonly string[];
  requests: number;
  /** True if every line was proved. */
  isProved: boolean;
  resources: readonly { name: string; path: string; seen: number; total: number | null }[];
}

export const MOST_REQUESTS = 60;
/** Kept back for each listing that is still to be looked into. */
const KEPT_EACH = 5;

/**
 * Finds a profile for a service by asking it: GET only, one request at a time, at the service's pace, at most `most` of
 * them. Throws `ConfigError` for what cannot be asked, `SyncError` (`probe_failed`) if no listing was found,
 * `DeferredError` if the service asks for a wait of more than a minute, and the signal's reason.
 */
export async function probeService(options: ProbeOptions): Promise<ProbeResult> {
  const { baseUrl, clock, credential, signal, secrets, most = MOST_REQUESTS } = options;
  refuseUnknownForm(options);
  if (credential !== null) secrets.push(credential.secret);
  let about = 'credential';
  const asking = (asked: string, requests: number): void => options.progress?.({ about, asked, requests, most });
  const { network } = options;
  await using asker = new Asker({ network, baseUrl, credential, clock, secrets, most, signal, asking });
  try {
    const unknown = { unknown: null, page: null, filter: null, item: null, gone: null, view: null };
    const conventions: Conventions = { ...unknown, parameters: new Set(), updated: [] };
    const stage: Stage = { asker, clock, conventions, notes: [] };
    const findings = newFindings();
    const subjects = await findListings(stage, { ...options, findings, about: (what) => (about = what) });
    for (const [at, subject] of subjects.entries()) {
      about = subject.name;
      const rest = subjects.length - at - 1;
      asker.reserve(Math.min(rest * KEPT_EACH, Math.floor((most - asker.spent) / 2)));
      await probeListing(subject);
    }
    if (subjects.length === 0) refuseSilence(asker, baseUrl, credential !== null);
    return resultOf(options, findings.all, subjects, { requests: asker.spent, notes: stage.notes });
  } catch (error) {
    if (error instanceof RequestsSpent) throw nothingFound(`${most} requests were not enough to find a listing`);
    throw error;
  }
}

function resultOf(
  { baseUrl, secrets }: ProbeOptions,
  common: readonly Finding[],
  subjects: readonly Subject[],
  spent: { requests: number; notes: readonly string[] },
): ProbeResult {
  if (subjects.length === 0) throw nothingFound('no listing of records was found');
  const long = secrets.filter((secret) => secret.length >= 8);
  const findings = [...common, ...subjects.flatMap((subject) => subject.findings.all)]
    // A service may put the credential into its links and its refusals.
    .filter(({ value }) => !holdsSecret(JSON.stringify(value ?? null), long))
    .map(({ path, value, proved, evidence }) => ({ path, value, proved, evidence: scrub(evidence, secrets) }));
  const fitted = profileFrom(findings);
  const auth = findings.find(({ path }) => path[0] === 'auth')?.value;
  return {
    ...fitted,
    baseUrl: baseUrl.href.replace(/\/$/, ''),
    scheme: typeof auth === 'object' && auth !== null ? Object.fromEntries(Object.entries(auth)) : {},
    ...spent,
    isProved: fitted.lost.length === 0 && fitted.findings.every(({ proved }) => proved),
    resources: subjects.map(({ name, path, records, total }) => ({ name, path, seen: records.length, total })),
  };
}

/** Throws if the service has not responded at all, or has refused everything. */
function refuseSilence(asker: Asker, baseUrl: URL, hasCredential: boolean): void {
  if (asker.silence !== null) throw unreachable(baseUrl, asker.silence);
  if (!asker.isRefused()) return;
  const what = hasCredential ? 'the credential was refused' : 'the service wants a credential';
  throw new SyncError('probe_failed', `${what}: every response was ${[...asker.statuses].join(' or ')}`, {
    recovery: 'stop',
    hint: hasCredential
      ? 'check the credential; if it is right, name how it is sent with --auth header:<name> or --auth query:<name>: a key is sent in the address only if you say so'
      : 'give the credential with --credential-env NAME',
  });
}

function nothingFound(why: string): SyncError {
  return new SyncError('probe_failed', why, {
    recovery: 'stop',
    hint: 'name a listing with --path, such as --path /posts; the address is where the API begins, such as https://cms.example.com/api, and the credential that of an account that may read; a key is sent in the address only with --auth query:<name>',
  });
}

function refuseUnknownForm({ auth, credential }: ProbeOptions): void {
  if (auth === undefined || parseForm(auth, credential?.user) !== null) return;
  throw new ConfigError('usage', `expected bearer, basic, header:<name> or query:<name>, got ${JSON.stringify(auth)}`, {
    hint: 'basic needs the name of the user as well: --user NAME',
  });
}

/** One question to the service, and the field that stays a guess if it cannot be put any more. */
interface Experiment {
  run: (subject: Subject, ids: readonly string[]) => Promise<void>;
  field: readonly string[];
  /** The safest reading. */
  otherwise: (subject: Subject) => unknown;
}

/** In their order: each builds on what those before have found. */
const EXPERIMENTS: readonly Experiment[] = [
  { run: probeView, field: ['query'], otherwise: () => ({}) },
  {
    run: probePages,
    field: ['page'],
    otherwise: ({ conventions: { page } }) => (page === null ? { style: 'single' } : { ...page.page, size: page.size }),
  },
  { run: probeTimes, field: ['updated'], otherwise: () => null },
  { run: probeItem, field: ['item'], otherwise: () => null },
  { run: probeFilter, field: ['incremental'], otherwise: () => null },
];

/** Finds out all that a profile says of one listing, as far as requests are left. */
async function probeListing(subject: Subject): Promise<void> {
  const { findings } = subject;
  const ids = probeId(subject);
  for (const { run, field, otherwise } of EXPERIMENTS) {
    try {
      await run(subject, ids);
    } catch (error) {
      if (!(error instanceof RequestsSpent)) throw error;
      if (field[0] !== 'query') findings.guessed(field, otherwise(subject), 'no request was left to try it');
    }
  }
  probeDeleted(subject);
}
