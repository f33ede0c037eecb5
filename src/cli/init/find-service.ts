import { packagedProfiles, readPackagedProfile } from '../../config/load-profile.ts';
import { defaultNetwork } from '../../config/network.ts';
import type { Profile } from '../../config/profile/profile.ts';
import { meetsConditions } from '../../http/outcome/outcome-table.ts';
import { ConfigError } from '../../model/errors.ts';
import { ProbeClient, type ProbeResponse } from '../../probe/probe-client.ts';
import { type ProbeResult, probeService } from '../../probe/probe-service.ts';
import { toYaml } from '../../probe/profile.ts';
import type { CliContext } from '../command/context.ts';
import { print } from '../command/output.ts';
import { progressOn, refuseInsecure } from '../probe.ts';
import type { Questions } from './questions.ts';

/** What a config says of a service. */
export interface FoundService {
  baseUrl: string;
  auth: Record<string, string>;
  /** Variables for `.env`, with their values. */
  variables: Record<string, string>;
  /** Name of a shipped profile, or of a file in the folder of the config if `profileText` is not null. */
  profile: string;
  profileText: string | null;
}

/** Max requests that recognise shipped profiles. */
const MAX_SIGN_REQUESTS = 40;

interface ServiceQuery {
  url: string;
  source: string;
  /** The profile that the user named; null if it is to be found. */
  given: Recognised | null;
  /** True if no shipped profile is tried. */
  isSearched: boolean;
  credentialEnv?: string;
  user?: string;
  auth?: string;
  path?: string[];
}

/** Recognises the service by its responses or by experiment, and takes the credential that it needs. */
export async function findService(
  context: CliContext,
  questions: Questions,
  wanted: ServiceQuery,
): Promise<FoundService> {
  const known = await knownProfiles(context, wanted);
  const [first] = known;
  if (first === undefined) return probed(context, questions, wanted);
  const { about, auth: schemes } = first.profile;
  const credential = about?.credential ?? 'the credential of the service';
  const secret = schemes?.[0]?.type === 'none' ? null : await takeSecret(context, questions, wanted, credential, false);
  const { name, profile } = await chosenProfile(questions, known, secret);
  const { type } = profile.auth?.[0] ?? { type: 'api_key' };
  if (!isAskedAuth(type)) {
    throw new ConfigError('usage', `the profile ${name} needs a credential of several parts (${type})`, {
      hint: 'write the config by hand: see Credential in config/settings.md',
    });
  }
  const { url, user } = wanted;
  const who =
    'user' in CREDENTIAL_FIELDS[type] ? await questions.text({ message: 'User name', option: '--user' }, user) : null;
  const auth = writtenAuth(type, secret?.variable ?? null, who);
  const baseUrl = withoutPrefix(url, profile);
  return { baseUrl, auth, variables: newVariables(secret), profile: name, profileText: null };
}

async function knownProfiles(context: CliContext, { url, given, isSearched }: ServiceQuery): Promise<Recognised[]> {
  if (isSearched) return [];
  if (given !== null) return [given];
  const { clock, secrets, signal } = context;
  const baseUrl = new URL(new URL(url).origin);
  const network = defaultNetwork(context.cwd, context.env);
  const asking = { network, baseUrl, credential: null, clock, secrets, signal, maxRequests: MAX_SIGN_REQUESTS };
  await using client = new ProbeClient(asking);
  const found = await recogniseService((path) => client.get({ path }), new URL(url).pathname);
  const titles = found.map((each) => `${each.profile.about?.title ?? each.name} (profile ${each.name})`);
  client.refuseSilence();
  if (found.length > 0) print(context, `This is ${titles.join(', or ')}.`);
  else print(context, 'No shipped profile fits: probing the service.');
  return found;
}

/** Chooses by the form of the credential; the user decides between the rest. */
async function chosenProfile(
  questions: Questions,
  known: readonly Recognised[],
  secret: TakenSecret | null,
): Promise<Recognised> {
  const fitting = secret === null ? known : fittingProfiles(known, secret.value);
  const [first = known[0], ...others] = fitting;
  if (first === undefined) throw new Error('there is a profile to choose');
  if (others.length === 0) return first;
  const choices = [first, ...others].map(({ name, profile }) => ({ value: name, label: profile.about?.title ?? name }));
  const name = await questions.choice('Which of its APIs?', choices, first.name);
  return [first, ...others].find((each) => each.name === name) ?? first;
}

async function probed(context: CliContext, questions: Questions, wanted: ServiceQuery): Promise<FoundService> {
  const { url, user, auth: form, path: paths } = wanted;
  const secret = await takeSecret(context, questions, wanted, 'an API key, token or password', true);
  const baseUrl = new URL(url);
  if (secret !== null) refuseInsecure(baseUrl, 'where the network is safe, use probe --allow-insecure');
  const { clock, secrets, signal } = context;
  const credential = secret === null ? null : { secret: secret.value, user };
  const progress = progressOn(context);
  const network = defaultNetwork(context.cwd, context.env);
  const asked = { network, baseUrl, credential, auth: form, paths };
  const result = await probeService({ ...asked, clock, secrets, signal, progress });
  print(context, formatProbeResult(result));
  const type = typeof result.scheme['type'] === 'string' ? result.scheme['type'] : 'none';
  const auth = isAskedAuth(type) ? writtenAuth(type, secret?.variable ?? null, user ?? null) : { type };
  const variables = newVariables(secret);
  return { baseUrl: result.baseUrl, auth, variables, profile: '', profileText: toYaml(result) };
}

function formatProbeResult({ resources, requests, isProved }: ProbeResult): string {
  const lines = resources.map(({ name, path, seen, total }) => `  ${name} at ${path}: ${total ?? `${seen} or more`}`);
  const doubt = isProved ? '' : '\nSome lines of the profile were not verified: they are marked "not proved".';
  return `Found with ${requests} requests:\n${lines.join('\n')}${doubt}`;
}

/** Names of the parts of a credential in the config, by kind: who asks, and the secret. */
const CREDENTIAL_FIELDS = {
  none: {},
  api_key: { secret: 'key' },
  bearer: { secret: 'token' },
  jwt: { secret: 'key' },
  basic: { user: 'username', secret: 'password' },
  session: { user: 'username', secret: 'password' },
  oauth: { user: 'client_id', secret: 'client_secret' },
} as const satisfies Readonly<Record<string, { user?: string; secret?: string }>>;

/** A kind of credential that consists of one secret and perhaps a name. */
type AskedAuth = keyof typeof CREDENTIAL_FIELDS;

/** True for such kinds of credentials. */
function isAskedAuth(type: string): type is AskedAuth {
  return Object.hasOwn(CREDENTIAL_FIELDS, type);
}

/** A secret, and the variable that holds it. */
interface TakenSecret {
  variable: string;
  value: string;
  /** True if the variable is not set yet: then it goes into `.env`. */
  isNew: boolean;
}

/**
 * The secret from the named variable, or from the person at the terminal; null if nothing was typed and `isOptional`.
 * From here on it is written only to `.env`. Throws `ConfigError` without a terminal.
 */
async function takeSecret(
  { env, secrets }: CliContext,
  questions: Questions,
  { source, credentialEnv: named }: ServiceQuery,
  about: string,
  isOptional: boolean,
): Promise<TakenSecret | null> {
  const variable = named ?? `${source.toUpperCase().replaceAll('-', '_')}_CREDENTIAL`;
  const known = env[variable] ?? '';
  if (known !== '') {
    secrets.push(known);
    return { variable, value: known, isNew: false };
  }
  if (!questions.isAsking) {
    if (named === undefined && isOptional) return null;
    if (named !== undefined) {
      throw new ConfigError('usage', `the environment variable ${variable} is not set`, {
        hint: `set it where content-sync is started, or in .env: ${about}`,
      });
    }
  }
  const value = await questions.secret({
    message: `${about.charAt(0).toUpperCase()}${about.slice(1)} (not shown${isOptional ? '; nothing if there is none' : ''})`,
    option: '--credential-env',
    isOptional,
  });
  if (value === '') return null;
  secrets.push(value);
  return { variable, value, isNew: true };
}

function newVariables(secret: TakenSecret | null): Record<string, string> {
  return secret?.isNew === true ? { [secret.variable]: secret.value } : {};
}

/** The `auth` of the config, with the variable instead of the secret. */
function writtenAuth(type: AskedAuth, variable: string | null, user: string | null): Record<string, string> {
  const parts: { user?: string; secret?: string } = CREDENTIAL_FIELDS[type];
  return {
    type,
    ...(parts.user === undefined || user === null ? {} : { [parts.user]: user }),
    ...(parts.secret === undefined || variable === null ? {} : { [parts.secret]: `\${${variable}}` }),
  };
}

/** A shipped profile whose signs the service shows. */
export interface Recognised {
  name: string;
  profile: Profile;
}

/** Asks for a path on the address, without a credential. */
type SignRequest = (path: string) => Promise<ProbeResponse>;

/**
 * The shipped profiles of which the service shows every sign; several if one service has several APIs. `path` is that
 * of the address: the service may be below the root, and the address may name its API.
 */
async function recogniseService(ask: SignRequest, path: string): Promise<Recognised[]> {
  const found: Recognised[] = [];
  for (const name of packagedProfiles()) {
    const profile = readPackagedProfile(name);
    const signs = profile.about?.recognised_by ?? [];
    const below = withoutPrefix(path, profile);
    if (signs.length > 0 && (await showsAll((sign) => ask(below + sign), signs))) found.push({ name, profile });
  }
  return found;
}

async function showsAll(ask: SignRequest, signs: NonNullable<Profile['about']>['recognised_by']): Promise<boolean> {
  for (const { path, ...conditions } of signs) {
    const { status, headers, json } = await ask(path);
    if (status === 0 || !meetsConditions(conditions, { status, headers, json })) return false;
  }
  return true;
}

/** Of several APIs of one service, those for which this credential has the right form. */
function fittingProfiles(recognised: readonly Recognised[], credential: string): Recognised[] {
  return recognised.filter(({ profile }) => {
    const form = profile.about?.credential_form;
    return form === undefined || new RegExp(form).test(credential);
  });
}

/** The address without the part that the profile puts before every path: people copy it from a browser. */
function withoutPrefix(address: string, { version_prefix }: Profile): string {
  const plain = address.replace(/\/+$/, '');
  return version_prefix !== '' && plain.endsWith(version_prefix) ? plain.slice(0, -version_prefix.length) : plain;
}
