// `content-sync config probe`: finds a profile for an unknown service by requests, and prints it as YAML.
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { Command } from 'commander';
import { parse } from 'yaml';
import { defaultNetwork } from '../config/network.ts';
import { isLoopback } from '../config/warehouse-address.ts';
import { ConfigError, messageOf } from '../model/errors.ts';
import type { JsonValue } from '../model/json.ts';
import { visibleText } from '../model/visible-text.ts';
import { type ProbeOptions, type ProbeProgress, type ProbeResult, probeService } from '../probe/probe-service.ts';
import { toYaml } from '../probe/profile.ts';
import { type CliContext, EXIT_CODES, print } from './command/context.ts';

interface ProbeFlags {
  openapi?: string;
  path: string[];
  out?: string;
  force?: true;
  requests?: string;
  credentialEnv?: string;
  user?: string;
  auth?: string;
  allowInsecure?: true;
}

/** Exit code 3 if a line of the profile could not be verified. */
export function probeCommand(context: CliContext): Command {
  return new Command('probe')
    .argument('<url>', 'Root of the API, such as https://cms.example.com/api')
    .option('--path <path>', 'Listing below it; repeatable', addTo, [])
    .option('--openapi <file or path>', 'OpenAPI document: a file, or a path or URL of the service')
    .option('--credential-env <name>', 'Environment variable that contains the key, token or password')
    .option('--user <name>', 'User name for a password (basic)')
    .option('--auth <form>', 'Only this form: bearer, basic, header:<name> or query:<name>')
    .option('--requests <count>', 'Max requests (default: 60 for the service, and 25 for each listing)')
    .option('--out <file>', 'Write the profile to this file instead of stdout')
    .option('--force', 'Replace an existing file')
    .option('--allow-insecure', 'Send the credential over plain http to other machines too')
    .action(async (url: string, flags: ProbeFlags) => {
      const out = outFile(context, flags);
      const result = await probeWith(context, url, flags);
      const text = toYaml(result);
      if (out === null) print(context, text.trimEnd());
      else writeFileSync(out, text);
      writeStatus(context, formatSummary(result, flags.out));
      context.exit(result.isProved ? EXIT_CODES.ok : EXIT_CODES.partial);
    });
}

function addTo(value: string, before: string[]): string[] {
  return [...before, value];
}

async function probeWith(context: CliContext, url: string, flags: ProbeFlags): Promise<ProbeResult> {
  const baseUrl = parseAddress(url);
  const maxRequests = flags.requests === undefined ? undefined : parseCount(flags.requests);
  const credential = readCredential(context, flags);
  if (credential !== null && flags.allowInsecure !== true) {
    refuseInsecure(baseUrl, 'where the network is safe, add --allow-insecure');
  }
  writeStatus(context, `sending requests to ${baseUrl.origin}, one after the other; nothing is changed there`);
  const { auth, path: paths } = flags;
  return runProbe(context, flags.openapi, { baseUrl, credential, auth, paths, maxRequests });
}

/** Probes the service in the environment of a command. `openapi` is a file, or a path or URL of the service. */
export function runProbe(
  context: CliContext,
  openapi: string | undefined,
  options: Omit<ProbeOptions, 'clock' | 'secrets' | 'signal'>,
): Promise<ProbeResult> {
  const { cwd, env, clock, secrets, signal } = context;
  const document = openapi === undefined ? {} : readOpenapi(context, openapi, options.baseUrl);
  const common = { network: defaultNetwork(cwd, env), clock, secrets, signal, progress: progressOn(context) };
  return probeService({ ...options, ...document, ...common });
}

/** Throws `ConfigError` if others on the network could read a credential that is sent there. */
export function refuseInsecure({ protocol, hostname }: URL, otherwise: string): void {
  if (protocol === 'https:' || isLoopback(hostname)) return;
  throw usage('the credential would be sent unencrypted', `begin the address with https://; ${otherwise}`);
}

function parseAddress(text: string): URL {
  const url = URL.parse(text);
  if (url === null || !/^https?:$/.test(url.protocol)) {
    throw usage(`expected an address such as https://cms.example.com/api, got ${JSON.stringify(text)}`);
  }
  if (url.username !== '' || url.password !== '') {
    throw usage('the address contains a user name or password', 'name them with --user and --credential-env');
  }
  if (url.search !== '' || url.hash !== '') throw usage('the address has a query', 'name listings with --path');
  return url;
}

function parseCount(text: string): number {
  const count = Number(text);
  if (Number.isInteger(count) && count >= 5 && count <= 1_000) return count;
  throw usage(`expected a number of requests from 5 to 1000, got ${JSON.stringify(text)}`);
}

function readCredential({ env }: CliContext, { credentialEnv, user, auth }: ProbeFlags) {
  if (credentialEnv === undefined) {
    if (user === undefined && auth === undefined) return null;
    throw usage('there is no credential', 'name the variable that holds it with --credential-env NAME');
  }
  const secret = env[credentialEnv]?.trim() ?? '';
  if (secret === '') throw usage(`the environment has no variable ${credentialEnv}, or it is empty`);
  return { secret, user };
}

/** Reads an OpenAPI document from a file, or returns its path at the service. */
function readOpenapi(
  { cwd }: CliContext,
  name: string,
  baseUrl: URL,
): { openapi: JsonValue } | { openapiPath: string } {
  if (/^https?:/.test(name)) {
    if (URL.parse(name)?.origin === baseUrl.origin) return { openapiPath: name };
    throw usage(`the document ${name} is not at ${baseUrl.origin}`, 'save it to a file, and name that');
  }
  const file = path.resolve(cwd, name);
  if (!existsSync(file)) {
    if (name.startsWith('/')) return { openapiPath: name };
    throw usage(`there is no file ${name}`, 'name a file, or a path of the service that begins with /');
  }
  try {
    const document: JsonValue = parse(readFileSync(file, 'utf8'));
    return { openapi: document };
  } catch (error) {
    throw usage(`${name} is neither JSON nor YAML: ${messageOf(error).split('\n')[0]}`);
  }
}

function outFile({ cwd }: CliContext, { out, force }: ProbeFlags): string | null {
  if (out === undefined) return null;
  const file = path.resolve(cwd, out);
  if (existsSync(file) && force !== true) throw usage(`${out} exists already`, 'choose another file, or add --force');
  if (!existsSync(path.dirname(file))) throw usage(`there is no folder for ${out}`);
  return file;
}

function usage(message: string, hint?: string): ConfigError {
  return new ConfigError('usage', message, hint === undefined ? {} : { hint });
}

function writeStatus({ stderr }: CliContext, text: string): void {
  // Overwrites the progress line.
  const clear = stderr.isTTY === true ? '\r\u001b[K' : '';
  stderr.write(`${clear}${visibleText(text)}\n`);
}

/** Shows the progress in one line that is overwritten, on a terminal only. */
function progressOn({ stderr }: CliContext): (progress: ProbeProgress) => void {
  if (stderr.isTTY !== true) return () => undefined;
  return ({ about, requested, requests, maxRequests }) => {
    const line = visibleText(`${requests}/${maxRequests} ${about}: ${requested}`).slice(0, (stderr.columns ?? 80) - 1);
    stderr.write(`\r\u001b[K${line}${requests === maxRequests ? '\n' : ''}`);
  };
}

function formatSummary(
  { resources, requests, isProved, findings, lost }: ProbeResult,
  out: string | undefined,
): string {
  const found = resources.map(({ name, seen, total }) => `${name} (${total ?? `${seen} or more`})`).join(', ');
  const unverified = findings.filter(({ proved }) => !proved).length + lost.length;
  const verified = isProved ? 'every line was verified' : `${unverified} lines were not verified: see the comments`;
  return `found ${found} with ${requests} requests; ${verified}${out === undefined ? '' : `; written to ${out}`}`;
}
