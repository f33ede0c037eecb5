// Finds a profile for an unknown service: runs the experiments with each of its listings, in order. Example: of
// https://cms.example.com it finds that `/posts` is a listing in pages of 100 by `?page=`, with `id` and `updated_at`.
import { ConfigError, type SyncError } from '../model/errors.ts';
import { holdsSecret, scrub } from '../observe/scrub.ts';
import { type Credential, type CredentialForm, namedHeaders, parseForm } from './credential-forms.ts';
import { probeDeleted, probeTimes, probeView } from './fields.ts';
import { probeFilter } from './filter.ts';
import { probeId, probeItem } from './item.ts';
import { findListings, type ListingSearch } from './listings.ts';
import { probePages } from './pages.ts';
import { ProbeClient, probeFailed, RequestsSpent } from './probe-client.ts';
import { newConventions, type ProbeContext, type ProbedListing } from './probed-listing.ts';
import { type Finding, type FittedProfile, newFindings, profileFrom } from './profile.ts';

export interface ProbeOptions extends ListingSearch {
  /** Chooses among the listings that were found; all of them if absent. */
  choose?: ((listings: readonly ListingSummary[]) => Promise<readonly string[]>) | undefined;
}

/** A listing that was found, with the number of records that were seen and that the service tells. */
export interface ListingSummary {
  name: string;
  path: string;
  seen: number;
  total: number | null;
}

export interface ProbeResult extends FittedProfile {
  baseUrl: string;
  /** How the credential is sent. */
  form: CredentialForm;
  notes: readonly string[];
  requests: number;
  /** True if every line was proved. */
  isProved: boolean;
  resources: readonly ListingSummary[];
}

/** In their order, because each builds on the findings of those before: the field, and what finds it out. */
const EXPERIMENTS: readonly [string, (listing: ProbedListing, ids: readonly string[]) => Promise<void>][] = [
  ['query', probeView],
  ['page', probePages],
  ['updated', probeTimes],
  ['item', probeItem],
  ['incremental', probeFilter],
];

const SERVICE_REQUESTS = 60;
const LISTING_REQUESTS = 25;

/**
 * Finds a profile for a service by experiment: GET only, one request at a time, at the service's pace, at most
 * `maxRequests` of them. Throws `ConfigError` for options that cannot be used, `SyncError` (`probe_failed`) if no listing
 * was found, `DeferredError` if the service demands a wait of more than a minute, and the signal's reason.
 */
export async function probeService(options: ProbeOptions): Promise<ProbeResult> {
  const { clock, credential, secrets, choose } = options;
  refuseUnknownForm(options);
  if (credential !== null) secrets.push(credential.secret, ...Object.values(credential.headers ?? {}));
  await using client = new ProbeClient(options);
  try {
    const context = { client, clock, conventions: newConventions(), notes: [] as string[] };
    const findings = newFindings();
    const all = await findListings(context, options, findings);
    if (all.length === 0) throw noListing(client, options);
    const chosen = choose === undefined ? null : await choose(all.map(toSummary));
    const selected = chosen === null ? all : all.filter(({ name }) => chosen.includes(name));
    // Nothing can be learned of an empty listing.
    const filled = selected.filter(({ records }) => records.length > 0);
    const listings = filled.length > 0 ? filled : selected;
    const empty = selected.filter((listing) => !listings.includes(listing)).map(({ path }) => path);
    if (empty.length > 0) context.notes.push(`empty, and so not copied: ${empty.join(', ')} (run this again later)`);
    client.allowMore(SERVICE_REQUESTS + LISTING_REQUESTS * listings.length - client.maxRequests);
    const { maxRequests } = client;
    const each = Math.floor((maxRequests - client.spent) / listings.length);
    for (const [at, listing] of listings.entries()) {
      // What one listing leaves, the next ones may use, and the first needs most.
      client.maxRequests = maxRequests - Math.floor(((listings.length - at - 1) * each) / 3);
      client.about = listing.name;
      await probeListing(listing);
    }
    return toResult(options, [...findings.all, ...listings.flatMap((one) => one.findings.all)], context, listings);
  } catch (error) {
    if (!(error instanceof RequestsSpent)) throw error;
    throw nothingFound(`${client.maxRequests} requests were not enough to find a listing`);
  }
}

/** Finds out all that a profile says of one listing, as far as requests are left. */
async function probeListing(listing: ProbedListing): Promise<void> {
  const ids = probeId(listing);
  for (const [field, run] of EXPERIMENTS) {
    try {
      await run(listing, ids);
    } catch (error) {
      if (!(error instanceof RequestsSpent)) throw error;
      if (field === 'query') continue;
      const { page } = listing.conventions;
      const isSized = typeof page?.fields['size_param'] === 'string';
      const likeBefore = isSized ? { ...page?.fields, size: page?.size } : { style: 'single' };
      listing.findings.guessed([field], field === 'page' ? likeBefore : null, 'no request was left to try it');
    }
  }
  probeDeleted(listing);
}

function toResult(
  { baseUrl, secrets }: ProbeOptions,
  found: readonly Finding[],
  { client, notes }: ProbeContext,
  listings: readonly ProbedListing[],
): ProbeResult {
  const long = secrets.filter((secret) => secret.length >= 8);
  const findings = found
    // A service may put the credential into its links and its refusals.
    .filter(({ value }) => !holdsSecret(JSON.stringify(value ?? null), long))
    .map((finding): Finding => Object.assign(finding, { evidence: scrub(finding.evidence, secrets) }));
  const fitted = profileFrom(findings);
  return {
    ...fitted,
    form: client.form,
    notes,
    baseUrl: baseUrl.href.replace(/\/$/, ''),
    requests: client.spent,
    isProved: fitted.lost.length === 0 && fitted.findings.every(({ proved }) => proved),
    resources: listings.map(toSummary),
  };
}

function toSummary({ name, path, records, total }: ProbedListing): ListingSummary {
  return { name, path, seen: records.length, total };
}

/** Why there is no listing: the service has not responded at all, has refused everything, or has none. */
function noListing(client: ProbeClient, { credential }: ProbeOptions): SyncError {
  client.refuseSilence();
  if (!client.isRefused()) return nothingFound('no listing of records was found');
  const what = credential === null ? 'the service wants a credential' : 'the credential was refused';
  const message = `${what}: every response was ${[...client.statuses].join(' or ')}`;
  return probeFailed(message, refusalHint(client, credential));
}

/** The one thing to give, by what the refusals say. */
function refusalHint({ lastChallenge }: ProbeClient, credential: Credential | null): string {
  const headers = namedHeaders(lastChallenge);
  if (headers.length > 1) {
    return `it wants several headers: ${headers.map((name) => `--header ${name}=VARIABLE`).join(' ')}, with the names of the environment variables that hold them`;
  }
  if (/basic/i.test(lastChallenge) && credential?.user === undefined) {
    return 'it wants a user name and a password: give --user NAME, and the password with --credential-env VARIABLE';
  }
  if (credential === null) return 'give the credential with --credential-env NAME';
  return 'check the credential; if it is right, name the header that carries it with --header NAME=VARIABLE, or the parameter with --auth query:<name>';
}

function nothingFound(why: string): SyncError {
  const hint =
    'name a listing with --path, such as --path /posts; the address is where the API begins, such as https://cms.example.com/api, and the credential that of an account that may read';
  return probeFailed(why, hint);
}

function refuseUnknownForm({ auth, credential }: ProbeOptions): void {
  if (auth === undefined || parseForm(auth, credential?.user) !== null) return;
  throw new ConfigError('usage', `expected bearer, basic, header:<name> or query:<name>, got ${JSON.stringify(auth)}`, {
    hint: 'basic needs the name of the user as well: --user NAME',
  });
}
