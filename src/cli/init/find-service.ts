// Finds the profile and the credential of a service for `init`: by its responses, or by experiment.
import { packagedProfiles, readPackagedProfile } from '../../config/load-profile.ts';
import { defaultNetwork } from '../../config/network.ts';
import { filterName } from '../../config/profile/incremental.ts';
import type { Profile } from '../../config/profile/profile.ts';
import { meetsConditions } from '../../http/outcome/outcome-table.ts';
import { ConfigError } from '../../model/errors.ts';
import { ProbeClient } from '../../probe/probe-client.ts';
import type { ListingSummary, ProbeResult } from '../../probe/probe-service.ts';
import { toYaml } from '../../probe/profile.ts';
import { alignedLines, type CliContext, print } from '../command/context.ts';
import { refuseInsecure, runProbe } from '../probe.ts';
import type { Questions } from './questions.ts';

/** The settings of a service for the config. */
export interface FoundService {
  baseUrl: string;
  auth: Record<string, unknown>;
  /** Variables for `.env`, with their values. */
  variables: Record<string, string>;
  /** Name of a shipped profile, or of a file. */
  profile: string;
  /** Text of a new profile, which replaces `profile`; null if none was needed. */
  profileText: string | null;
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
  /** The profile that the user named; null if it is to be found. */
  given: NamedProfile | null;
  /** True if shipped profiles are not tried. */
  isProbed: boolean;
}

/** Options of the command about the credential and the listings. */
export interface ServiceOptions {
  credentialEnv?: string;
  user?: string;
  auth?: string;
  /** `NAME=VARIABLE`: headers with secrets, and the variables that hold them. */
  header?: string[];
  path?: string[];
  /** An OpenAPI document: a file, or a path or URL of the service. */
  openapi?: string;
}

/** The parts of a credential in the config, by its type: a user's name, and the secret. Other types have more parts. */
const CREDENTIAL_FIELDS: Readonly<Record<string, { user?: string; secret?: string }>> = {
  none: {},
  api_key: { secret: 'key' },
  bearer: { secret: 'token' },
  jwt: { secret: 'key' },
  basic: { user: 'username', secret: 'password' },
  session: { user: 'username', secret: 'password' },
  oauth: { user: 'client_id', secret: 'client_secret' },
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
  const credential = first.profile.about?.credential ?? 'the credential of the service';
  const needsNone = first.profile.auth?.[0]?.type === 'none';
  const secret = needsNone ? null : await takeSecret(context, questions, query, { about: credential });
  const { name, profile } = await chooseProfile(questions, known, secret);
  const { type } = profile.auth?.[0] ?? { type: 'api_key' };
  const fields = CREDENTIAL_FIELDS[type];
  if (fields === undefined) {
    throw new ConfigError('usage', `the profile ${name} needs a credential of several parts (${type})`, {
      hint: 'write the config by hand: see Credential in config/settings.md',
    });
  }
  const asksUser = fields.user !== undefined;
  const user = asksUser ? await questions.text({ message: 'User name', option: '--user' }, query.user) : undefined;
  const baseUrl = withoutPrefix(url, profile);
  return { baseUrl, ...credentialSettings(type, secret, user), profile: name, profileText: null, probed: null };
}

/** The shipped profiles of which the service shows every sign; several if one service has several APIs. */
async function recogniseService(context: CliContext, url: string): Promise<NamedProfile[]> {
  const { clock, secrets, signal } = context;
  const { origin, pathname } = new URL(url);
  const network = defaultNetwork(context.cwd, context.env);
  const options = { network, baseUrl: new URL(origin), credential: null, clock, secrets, signal };
  await using client = new ProbeClient({ ...options, maxRequests: MAX_SIGN_REQUESTS, isFixed: true });
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
  known: readonly NamedProfile[],
  secret: TakenSecret | null,
): Promise<NamedProfile> {
  const fitting = known.filter(({ profile: { about } }) => {
    return (
      secret === null || about?.credential_form === undefined || new RegExp(about.credential_form).test(secret.value)
    );
  });
  const [first = known[0], ...others] = fitting;
  if (first === undefined) throw new Error('there is a profile to choose');
  if (others.length === 0) return first;
  const choices = fitting.map((each) => ({ value: each.name, label: titleOf(each) }));
  const name = await questions.choice('Which of its APIs?', choices, first.name);
  return fitting.find((each) => each.name === name) ?? first;
}

/** The address without the part that the profile puts before every path: users copy it from a browser. */
function withoutPrefix(address: string, { version_prefix }: Profile): string {
  const plain = address.replace(/\/+$/, '');
  return version_prefix !== '' && plain.endsWith(version_prefix) ? plain.slice(0, -version_prefix.length) : plain;
}

async function probeUnknown(context: CliContext, questions: Questions, query: ServiceQuery): Promise<FoundService> {
  const { user, auth: form, path: paths, header } = query;
  const wanted = { about: 'an API key, token or password', isOptional: true };
  const secret = header === undefined ? await takeSecret(context, questions, query, wanted) : null;
  const headers = header === undefined ? null : readHeaders(context, header);
  const baseUrl = new URL(query.url);
  const credential = headers ?? (secret === null ? null : { secret: secret.value, user });
  if (credential !== null) refuseInsecure(baseUrl, 'where the network is safe, use probe --allow-insecure');
  const choose = (listings: readonly ListingSummary[]): Promise<string[]> => {
    const choices = listings.map(({ name, path, seen, total }) => ({
      value: name,
      label: `${name} at ${path}: ${total ?? `${seen} or more`} records`,
    }));
    return questions.several('Which listings are to be copied?', choices);
  };
  const result = await runProbe(context, query.openapi, { baseUrl, credential, auth: form, paths, choose });
  print(context, `Found with ${result.requests} requests:\n${listingTable(result)}`);
  for (const note of result.notes) print(context, note);
  const { type = 'none' } = result.scheme;
  const known = secret === null ? {} : result.settings(`\${${secret.variable}}`);
  const auth = headers?.auth ?? { type, ...known };
  const { variables = {} } = secret ?? {};
  return { baseUrl: result.baseUrl, auth, variables, profile: '', profileText: toYaml(result), probed: result };
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

/** What was found of each listing, as lines of a table. */
function listingTable({ resources, profile }: ProbeResult): string {
  const rows = resources.flatMap(({ name, path, seen, total }) => {
    const found = profile.resources[name];
    if (found === undefined) return [[`${name} at ${path}: cannot be copied, see the profile`]];
    const { page, incremental, item, unverified } = found;
    return [
      [
        `${name} at ${path}: ${total ?? `${seen} or more`}`,
        page.style === 'single' ? 'one page' : `pages by ${page.style}`,
        incremental === null ? 'changes by full scans' : `changes by ${filterName(incremental)}`,
        item === null ? 'deletes by full scans' : 'deletes by single records',
        unverified.length === 0 ? 'all verified' : `not verified: ${unverified.join(', ')}`,
      ],
    ];
  });
  return alignedLines(rows)
    .map((line) => `  ${line}`)
    .join('\n');
}

interface TakenSecret {
  variable: string;
  value: string;
  /** The variable for `.env`, unless it is set already. */
  variables: Record<string, string>;
}

/**
 * The secret from the named variable, or from the user at the terminal; null if nothing was typed and `isOptional`.
 * From here on it is written only to `.env`. Throws `ConfigError` without a terminal.
 */
async function takeSecret(
  { env, secrets }: CliContext,
  questions: Questions,
  { source, credentialEnv }: ServiceQuery,
  { about, isOptional = false }: { about: string; isOptional?: boolean },
): Promise<TakenSecret | null> {
  const variable = credentialEnv ?? `${source.toUpperCase().replaceAll('-', '_')}_CREDENTIAL`;
  let value = env[variable] ?? '';
  const isNew = value === '';
  if (isNew && !questions.isAsking) {
    if (credentialEnv !== undefined) {
      throw new ConfigError('usage', `the environment variable ${variable} is not set`, {
        hint: `set it where content-sync is started, or in .env: ${about}`,
      });
    }
    if (isOptional) return null;
  }
  if (isNew) {
    const title = about.charAt(0).toUpperCase() + about.slice(1);
    const message = `${title} (not shown${isOptional ? '; nothing if there is none' : ''})`;
    value = await questions.secret({ message, option: '--credential-env', isOptional });
  }
  if (value === '') return null;
  secrets.push(value);
  return { variable, value, variables: isNew ? { [variable]: value } : {} };
}

/** The `auth` of the config, with the variable instead of the secret, and the variables for `.env`. */
function credentialSettings(type: string, secret: TakenSecret | null, user: string | undefined) {
  const fields = CREDENTIAL_FIELDS[type] ?? {};
  const auth: Record<string, string> = { type };
  if (fields.user !== undefined && user !== undefined) auth[fields.user] = user;
  if (fields.secret !== undefined && secret !== null) auth[fields.secret] = `\${${secret.variable}}`;
  return { auth, variables: secret?.variables ?? {} };
}
