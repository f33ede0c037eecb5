// Finds the profile and the settings of a service for `init`. Example: where `/ghost/api/content/posts/` answers as
// Ghost's does, the profile is `ghost`, and the user is asked for its API key; a service that no shipped profile fits
// is probed.
import { packagedProfiles, readPackagedProfile } from '../../config/load-profile.ts';
import { defaultNetwork } from '../../config/network.ts';
import { filterName } from '../../config/profile/incremental.ts';
import type { Profile } from '../../config/profile/profile.ts';
import { meetsConditions } from '../../http/outcome/outcome-table.ts';
import { ConfigError } from '../../model/errors.ts';
import { ProbeClient } from '../../probe/probe-client.ts';
import type { ListingSummary, ProbeResult } from '../../probe/probe-service.ts';
import { alignedLines, type CliContext, print } from '../command/context.ts';
import { refuseInsecure, runProbe, type ServiceOptions } from '../probe.ts';
import type { Questions } from './questions.ts';

/** The settings of a service for the config. */
export interface FoundService {
  baseUrl: string;
  auth: Record<string, unknown>;
  /** Variables for `.env`, with their values. */
  variables: Readonly<Record<string, string>>;
  /** Name of the profile; empty if the service was probed. */
  profile: string;
  /** What the experiments found; null for a profile that was there. */
  probed: ProbeResult | null;
}

/** A profile, and its name as a config has it. */
export interface NamedProfile {
  name: string;
  profile: Profile;
}

interface ServiceQuery extends ServiceOptions {
  url: string;
  source: string;
  /** `NAME=VARIABLE`: headers with secrets, and the variables that hold them. */
  header?: string[];
  /** The profile that the user named; null if it is to be found. */
  given: NamedProfile | null;
  /** True if shipped profiles are not tried. */
  isProbed: boolean;
}

/** The parts of a credential in the config, by its type: the secret, and a user's name. Other types have more parts. */
const CREDENTIAL_FIELDS: Readonly<Record<string, readonly [secret?: string, user?: string]>> = {
  none: [],
  api_key: ['key'],
  bearer: ['token'],
  jwt: ['key'],
  basic: ['password', 'username'],
  session: ['password', 'username'],
  oauth: ['client_secret', 'client_id'],
};

const MAX_SIGN_REQUESTS = 40;

/** Recognises the service by its responses or by experiment, and takes the credential that it needs. */
export async function findService(
  context: CliContext,
  questions: Questions,
  query: ServiceQuery,
): Promise<FoundService> {
  const { url, given, isProbed } = query;
  const known = given !== null ? [given] : isProbed ? [] : await recogniseService(context, url);
  const [first] = known;
  if (first === undefined) return probeUnknown(context, questions, query);
  const { about, auth: types } = first.profile;
  const wanted = about?.credential ?? 'the credential of the service';
  const secret = types?.[0]?.type === 'none' ? null : await takeSecret(context, questions, query, wanted);
  const { name, profile } = await chooseProfile(questions, [first, ...known.slice(1)], secret);
  const { type } = profile.auth?.[0] ?? { type: 'api_key' };
  const fields = CREDENTIAL_FIELDS[type];
  if (fields === undefined) {
    throw new ConfigError('usage', `the profile ${name} needs a credential of several parts (${type})`, {
      hint: 'write the config by hand: see Credential in config/settings.md',
    });
  }
  const [secretField, userField] = fields;
  const auth: Record<string, string> = { type };
  if (userField !== undefined)
    auth[userField] = await questions.text({ message: 'User name', option: '--user' }, query.user);
  if (secretField !== undefined && secret !== null) auth[secretField] = `\${${secret.variable}}`;
  const variables = secret?.variables ?? {};
  return { baseUrl: withoutPrefix(url, profile), auth, variables, profile: name, probed: null };
}

/** The shipped profiles of which the service shows every sign; several if one service has several APIs. */
async function recogniseService(context: CliContext, url: string): Promise<NamedProfile[]> {
  const { clock, secrets, signal } = context;
  const { origin, pathname } = new URL(url);
  const network = defaultNetwork(context.cwd, context.env);
  const options = { network, baseUrl: new URL(origin), credential: null, clock, secrets, signal };
  await using client = new ProbeClient({ ...options, maxRequests: MAX_SIGN_REQUESTS });
  const found: NamedProfile[] = [];
  for (const name of packagedProfiles()) {
    const profile = readPackagedProfile(name);
    const signs = profile.about?.recognised_by ?? [];
    let isShown = signs.length > 0;
    for (const { path, ...conditions } of signs) {
      // The service may be below the root, and the address may name its API.
      const response = isShown ? await client.get({ path: withoutPrefix(pathname, profile) + path }) : null;
      isShown = response !== null && response.status !== 0 && meetsConditions(conditions, response);
    }
    if (isShown) found.push({ name, profile });
  }
  client.refuseSilence();
  const titles = found.map((each) => `${titleOf(each)} (profile ${each.name})`);
  if (found.length > 0) print(context, `This is ${titles.join(', or ')}.`);
  else print(context, 'No shipped profile fits: probing the service.');
  return found;
}

function titleOf({ name, profile }: NamedProfile): string {
  return profile.about?.title ?? name;
}

/** Chooses by the form of the credential; if several profiles fit, asks the user. */
async function chooseProfile(
  questions: Questions,
  known: [NamedProfile, ...NamedProfile[]],
  secret: TakenSecret,
): Promise<NamedProfile> {
  const fitting = known.filter(({ profile: { about } }) =>
    new RegExp(about?.credential_form ?? '').test(secret?.value ?? ''),
  );
  const [first = known[0], ...others] = secret === null ? known : fitting;
  if (others.length === 0) return first;
  const choices = [first, ...others].map((each) => ({ value: each.name, label: titleOf(each) }));
  const name = await questions.choice('Which of its APIs?', choices, first.name);
  return others.find((each) => each.name === name) ?? first;
}

/** The address without the part that the profile puts before every path: users copy it from a browser. */
function withoutPrefix(address: string, { version_prefix }: Profile): string {
  const plain = address.replace(/\/+$/, '');
  return version_prefix !== '' && plain.endsWith(version_prefix) ? plain.slice(0, -version_prefix.length) : plain;
}

/** Finds a profile by experiment. The user chooses among the listings that were found. */
async function probeUnknown(context: CliContext, questions: Questions, query: ServiceQuery): Promise<FoundService> {
  const { user, auth: form, path: paths, header } = query;
  const wanted = 'an API key, token or password';
  const headers = header === undefined ? null : readHeaders(context, header);
  const secret = headers === null ? await takeSecret(context, questions, query, wanted, true) : null;
  const baseUrl = new URL(query.url);
  const credential = headers ?? (secret === null ? null : { secret: secret.value, user });
  if (credential !== null) refuseInsecure(baseUrl, 'where the network is safe, use probe --allow-insecure');
  const choose = (listings: readonly ListingSummary[]): Promise<string[]> => {
    const choices = listings.map((listing) => ({ value: listing.name, label: `${describeListing(listing)} records` }));
    return questions.several('Which listings are to be copied?', choices);
  };
  const probed = await runProbe(context, query.openapi, { baseUrl, credential, auth: form, paths, choose });
  print(context, `Found with ${probed.requests} requests:\n${listingTable(probed)}`);
  for (const note of probed.notes) print(context, note);
  const { scheme, settings } = probed.form;
  const known = secret === null ? {} : settings(`\${${secret.variable}}`);
  const auth = headers?.auth ?? { type: scheme['type'] ?? 'none', ...known };
  return { baseUrl: probed.baseUrl, auth, variables: secret?.variables ?? {}, profile: '', probed };
}

/** The headers of `--header NAME=VARIABLE` with their secrets, and the settings for them. */
function readHeaders({ env }: CliContext, given: readonly string[]) {
  const named = given.map((text) => {
    const [, name = '', variable = ''] = /^([\w-]+)[=:]\s*(\w+)$/.exec(text) ?? [];
    const value = env[variable]?.trim() ?? '';
    if (value !== '') return { name, variable, value };
    throw new ConfigError('usage', `--header ${text}: expected NAME=VARIABLE, with a variable that is set`, {
      hint: 'such as --header X-Api-Key=SHOP_KEY, with SHOP_KEY in the environment or in .env; once for each header',
    });
  });
  const headers = Object.fromEntries(named.map(({ name, value }) => [name, value]));
  const settings = Object.fromEntries(named.map(({ name, variable }) => [name, `\${${variable}}`]));
  return { secret: named[0]?.value ?? '', headers, auth: { type: 'headers', headers: settings } };
}

function describeListing({ name, path, seen, total }: ListingSummary): string {
  return `${name} at ${path}: ${total ?? `${seen} or more`}`;
}

/** What was found of each listing, as lines of a table. */
function listingTable({ resources, profile }: ProbeResult): string {
  const rows = resources.map((listing) => {
    const found = profile.resources[listing.name];
    if (found === undefined) return [`  ${listing.name} at ${listing.path}: cannot be copied, see the profile`];
    const { page, incremental, item, unverified } = found;
    return [
      `  ${describeListing(listing)}`,
      page.style === 'single' ? 'one page' : `pages by ${page.style}`,
      incremental === null ? 'changes by full scans' : `changes by ${filterName(incremental)}`,
      item === null ? 'deletes by full scans' : 'deletes by single records',
      unverified.length === 0 ? 'all verified' : `not verified: ${unverified.join(', ')}`,
    ];
  });
  return alignedLines(rows).join('\n');
}

type TakenSecret = Awaited<ReturnType<typeof takeSecret>>;

/**
 * The secret from the named variable, or from the user at the terminal; null if nothing was typed and `isOptional`.
 * From here on it is written only to `.env`, with the `variables`: none if it is set already. Throws `ConfigError` without
 * a terminal.
 */
async function takeSecret(
  { env, secrets }: CliContext,
  questions: Questions,
  { source, credentialEnv }: ServiceQuery,
  about: string,
  isOptional = false,
) {
  const variable = credentialEnv ?? `${source.toUpperCase().replaceAll('-', '_')}_CREDENTIAL`;
  let value = env[variable] ?? '';
  const isNew = value === '';
  if (isNew && !questions.isAsking) {
    if (credentialEnv === undefined && isOptional) return null;
    throw new ConfigError('usage', `the environment variable ${variable} is not set`, {
      hint: `name it with --credential-env, and set it where content-sync is started, or in .env: ${about}`,
    });
  }
  if (isNew) {
    const title = about.charAt(0).toUpperCase() + about.slice(1);
    const message = `${title} (not shown${isOptional ? '; nothing if there is none' : ''})`;
    value = await questions.secret(message, isOptional);
  }
  if (value === '') return null;
  secrets.push(value);
  const variables: Record<string, string> = isNew ? { [variable]: value } : {};
  return { variable, value, variables };
}
