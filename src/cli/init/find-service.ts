import type { CliContext } from '../command/context.ts';
import { print } from '../command/output.ts';
import { isAskedAuth, needsUser, type TakenSecret, takeSecret, writtenAuth } from './credential.ts';
import type { Questions } from './questions.ts';
import { fittingProfiles, type Recognised, recogniseService, withoutPrefix } from './recognise.ts';
import { progressOn, refuseInsecure } from '../probe.ts';
import { ConfigError } from '../../model/errors.ts';
import { Asker, unreachable } from '../../probe/asker.ts';
import { type ProbeResult, probeService } from '../../probe/probe-service.ts';
import { toYaml } from '../../probe/profile.ts';
import { usualNetwork } from '../../settings/network.ts';

/** What a config says of a service. */
export interface FoundService {
  baseUrl: string;
  auth: Record<string, string>;
  /** Variables for `.env`, with their values. */
  variables: Record<string, string>;
  /** Name of a shipped profile; that of a file beside the config if `profileText` is not null. */
  profile: string;
  profileText: string | null;
}

/** Requests for signs of shipped profiles. */
const MOST_SIGNS = 40;

interface Wanted {
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

/** Finds out of which kind the service is, by its answers or by experiment, with the credential that it needs. */
export async function findService(context: CliContext, questions: Questions, wanted: Wanted): Promise<FoundService> {
  const known = await knownProfiles(context, wanted);
  if (known.length === 0) return probed(context, questions, wanted);
  const [first] = known;
  if (first === undefined) throw new Error('a list that is not empty has a first');
  const { type } = first.profile.auth?.[0] ?? { type: 'api_key' };
  const secret = await secretFor(context, questions, wanted, { about: first.profile.about?.credential, type });
  const chosen = await chosenProfile(questions, known, secret);
  const { auth, baseUrl } = await written(questions, wanted, chosen, secret);
  const variables = secret?.isNew === true ? { [secret.variable]: secret.value } : {};
  return { baseUrl, auth, variables, profile: chosen.name, profileText: null };
}

async function knownProfiles(context: CliContext, { url, given, isSearched }: Wanted): Promise<Recognised[]> {
  if (isSearched) return [];
  if (given !== null) return [given];
  const { clock, secrets, signal } = context;
  const baseUrl = new URL(new URL(url).origin);
  const network = usualNetwork(context.cwd, context.env);
  const asking = { network, baseUrl, credential: null, clock, secrets, signal, most: MOST_SIGNS };
  await using asker = new Asker(asking);
  const found = await recogniseService((path) => asker.ask({ path }), new URL(url).pathname);
  const titles = found.map((each) => `${each.profile.about?.title ?? each.name} (profile ${each.name})`);
  if (asker.silence !== null) throw unreachable(baseUrl, asker.silence);
  if (found.length > 0) print(context, `This is ${titles.join(', or ')}.`);
  else print(context, 'No shipped profile fits: the service is asked what it is like.');
  return found;
}

async function secretFor(
  context: CliContext,
  questions: Questions,
  { source, credentialEnv }: Wanted,
  { about = 'the credential of the service', type }: { about?: string | undefined; type: string },
): Promise<TakenSecret | null> {
  if (type === 'none') return null;
  const preset = `${source.toUpperCase().replaceAll('-', '_')}_CREDENTIAL`;
  return takeSecret(context, questions, { about, preset, isOptional: false }, credentialEnv);
}

/** By the form of the credential; a person decides between what is left. */
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

async function written(
  questions: Questions,
  { url, user }: Wanted,
  { name, profile }: Recognised,
  secret: TakenSecret | null,
): Promise<Pick<FoundService, 'auth' | 'baseUrl'>> {
  const { type } = profile.auth?.[0] ?? { type: 'api_key' };
  if (!isAskedAuth(type)) {
    throw new ConfigError('usage', `the profile ${name} needs a credential of several parts (${type})`, {
      hint: 'write the config by hand: config/README.md shows what stands under auth',
    });
  }
  const who = needsUser(type) ? await questions.text({ message: 'User name', option: '--user' }, user) : null;
  return { baseUrl: withoutPrefix(url, profile), auth: writtenAuth(type, secret?.variable ?? null, who) };
}

async function probed(context: CliContext, questions: Questions, wanted: Wanted): Promise<FoundService> {
  const { url, source, credentialEnv, user, auth: form, path: paths } = wanted;
  const preset = `${source.toUpperCase().replaceAll('-', '_')}_CREDENTIAL`;
  const about = { about: 'an API key, token or password', preset, isOptional: true };
  const secret = await takeSecret(context, questions, about, credentialEnv);
  const baseUrl = new URL(url);
  if (secret !== null) refuseInsecure(baseUrl, 'where the network is safe, use probe --allow-insecure');
  const { clock, secrets, signal } = context;
  const credential = secret === null ? null : { secret: secret.value, user };
  const progress = progressOn(context);
  const network = usualNetwork(context.cwd, context.env);
  const asked = { network, baseUrl, credential, auth: form, paths };
  const result = await probeService({ ...asked, clock, secrets, signal, progress });
  print(context, foundText(result));
  const type = typeof result.scheme['type'] === 'string' ? result.scheme['type'] : 'none';
  const auth = isAskedAuth(type) ? writtenAuth(type, secret?.variable ?? null, user ?? null) : { type };
  const variables = secret?.isNew === true ? { [secret.variable]: secret.value } : {};
  return { baseUrl: result.baseUrl, auth, variables, profile: '', profileText: toYaml(result) };
}

function foundText({ resources, requests, isProved }: ProbeResult): string {
  const lines = resources.map(({ name, path, seen, total }) => `  ${name} at ${path}: ${total ?? `${seen} or more`}`);
  const doubt = isProved ? '' : '\nNot every line of the profile was proved: "not proved" stands beside those.';
  return `Found with ${requests} requests:\n${lines.join('\n')}${doubt}`;
}
