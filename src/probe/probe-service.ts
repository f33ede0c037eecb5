// Finds a profile for an unknown service: runs the experiments with each of its listings, in order.
import type { Network } from '../config/network.ts';
import type { Clock } from '../model/clock.ts';
import { ConfigError, SyncError } from '../model/errors.ts';
import type { JsonValue } from '../model/json.ts';
import { holdsSecret, scrub } from '../observe/scrub.ts';
import { type Credential, parseForm } from './credential-forms.ts';
import { probeDeleted, probeTimes, probeView } from './fields.ts';
import { probeFilter } from './filter.ts';
import { probeId, probeItem } from './item.ts';
import { findListings } from './listings.ts';
import { probePages } from './pages.ts';
import { ProbeClient, RequestsSpent } from './probe-client.ts';
import type { ProbeContext, ProbedListing } from './probed-listing.ts';
import { type Finding, type FittedProfile, newFindings, profileFrom } from './profile.ts';

export interface ProbeOptions {
  /** Http or https; paths are requested below it. */
  baseUrl: URL;
  /** Null for a service that wants none. */
  credential: Credential | null;
  /** `bearer`, `basic`, `header:<name>` or `query:<name>`: the only form that is tried. */
  auth?: string | undefined;
  /** Listings below the base URL; found by experiment if there are none. */
  paths?: readonly string[] | undefined;
  openapi?: JsonValue | undefined;
  /** Path or URL of one at the service. */
  openapiPath?: string | undefined;
  /** 60 if absent. */
  maxRequests?: number | undefined;
  clock: Clock;
  network?: Network | undefined;
  /** Texts that must not be written: the credential is added. */
  secrets: string[];
  signal: AbortSignal;
  progress?: ((progress: ProbeProgress) => void) | undefined;
}

export interface ProbeProgress {
  /** `credential`, `listings`, or the name of the resource that is examined. */
  about: string;
  /** Path and query of the request that is sent now, without the credential. */
  requested: string;
  /** Requests sent, this one included. */
  requests: number;
  maxRequests: number;
}

export interface ProbeResult extends FittedProfile {
  baseUrl: string;
  /** The form of the credential, as `auth` of the profile says it. */
  scheme: Readonly<Record<string, string>>;
  notes: readonly string[];
  requests: number;
  /** True if every line was proved. */
  isProved: boolean;
  resources: readonly { name: string; path: string; seen: number; total: number | null }[];
}

/** An experiment with one listing, and the field that stays a guess if no request is left for it. */
interface Experiment {
  run: (listing: ProbedListing, ids: readonly string[]) => Promise<void>;
  field: string | null;
  /** The safest reading. */
  fallback: (listing: ProbedListing) => unknown;
}

/** In their order: each builds on the findings of those before. */
const EXPERIMENTS: readonly Experiment[] = [
  { run: probeView, field: null, fallback: () => null },
  {
    run: probePages,
    field: 'page',
    fallback: ({ conventions: { page } }) =>
      page === null ? { style: 'single' } : { ...page.fields, size: page.size },
  },
  { run: probeTimes, field: 'updated', fallback: () => null },
  { run: probeItem, field: 'item', fallback: () => null },
  { run: probeFilter, field: 'incremental', fallback: () => null },
];

export const MAX_REQUESTS = 60;
/** Kept for each listing that is still to be examined. */
const RESERVED_PER_LISTING = 5;

/**
 * Finds a profile for a service by experiment: GET only, one request at a time, at the service's pace, at most
 * `maxRequests` of them. Throws `ConfigError` for options that cannot be used, `SyncError` (`probe_failed`) if no listing
 * was found, `DeferredError` if the service demands a wait of more than a minute, and the signal's reason.
 */
export async function probeService(options: ProbeOptions): Promise<ProbeResult> {
  const { baseUrl, clock, credential, signal, secrets, network, maxRequests = MAX_REQUESTS } = options;
  refuseUnknownForm(options);
  if (credential !== null) secrets.push(credential.secret);
  let about = 'credential';
  const onRequest = (requested: string, requests: number): void =>
    options.progress?.({ about, requested, requests, maxRequests });
  await using client = new ProbeClient({
    network,
    baseUrl,
    credential,
    clock,
    secrets,
    maxRequests,
    signal,
    onRequest,
  });
  try {
    const nothing = { unknown: null, page: null, filter: null, item: null, gone: null, view: null };
    const conventions = { ...nothing, parameters: new Set<string>(), updated: [] };
    const context: ProbeContext = { client, clock, conventions, notes: [] };
    const findings = newFindings();
    const listings = await findListings(context, { ...options, findings, onListings: () => (about = 'listings') });
    for (const [at, listing] of listings.entries()) {
      about = listing.name;
      const others = listings.length - at - 1;
      client.reserve(Math.min(others * RESERVED_PER_LISTING, Math.floor((maxRequests - client.spent) / 2)));
      await probeListing(listing);
    }
    if (listings.length === 0) throw noListing(client, credential !== null);
    return toResult(options, findings.all, listings, { requests: client.spent, notes: context.notes });
  } catch (error) {
    if (error instanceof RequestsSpent) throw nothingFound(`${maxRequests} requests were not enough to find a listing`);
    throw error;
  }
}

/** Finds out all that a profile says of one listing, as far as requests are left. */
async function probeListing(listing: ProbedListing): Promise<void> {
  const ids = probeId(listing);
  for (const { run, field, fallback } of EXPERIMENTS) {
    try {
      await run(listing, ids);
    } catch (error) {
      if (!(error instanceof RequestsSpent)) throw error;
      if (field !== null) listing.findings.guessed([field], fallback(listing), 'no request was left to try it');
    }
  }
  probeDeleted(listing);
}

function toResult(
  { baseUrl, secrets }: ProbeOptions,
  common: readonly Finding[],
  listings: readonly ProbedListing[],
  spent: { requests: number; notes: readonly string[] },
): ProbeResult {
  const long = secrets.filter((secret) => secret.length >= 8);
  const findings = [...common, ...listings.flatMap((listing) => listing.findings.all)]
    // A service may put the credential into its links and its refusals.
    .filter(({ value }) => !holdsSecret(JSON.stringify(value ?? null), long))
    .map((finding): Finding => Object.assign(finding, { evidence: scrub(finding.evidence, secrets) }));
  const fitted = profileFrom(findings);
  const auth = findings.find(({ path }) => path[0] === 'auth')?.value;
  return {
    ...fitted,
    baseUrl: baseUrl.href.replace(/\/$/, ''),
    scheme: typeof auth === 'object' && auth !== null ? Object.fromEntries(Object.entries(auth)) : {},
    ...spent,
    isProved: fitted.lost.length === 0 && fitted.findings.every(({ proved }) => proved),
    resources: listings.map(({ name, path, records, total }) => ({ name, path, seen: records.length, total })),
  };
}

/** Why there is no listing: the service has not responded at all, has refused everything, or has none. */
function noListing(client: ProbeClient, hasCredential: boolean): SyncError {
  client.refuseSilence();
  if (!client.isRefused()) return nothingFound('no listing of records was found');
  const what = hasCredential ? 'the credential was refused' : 'the service wants a credential';
  return new SyncError('probe_failed', `${what}: every response was ${[...client.statuses].join(' or ')}`, {
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
